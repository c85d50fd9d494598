"""Which environments are listed, the package of each, and how a module registers its own."""

import sys

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.cli import main
from llm_gym.core.errors import ConfigError
from llm_gym.registry.lookup import find_spec


def test_list_all_shows_the_package_of_each_id(capsys):
    assert main(["list", "--all"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "gymnasium" in lines["CartPole-v1"]
    assert lines["llm_gym/TextGame-v0"].split()[1] == "llm_gym"


def test_import_registers_the_environments_of_a_module(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('MyPole-v0', 'gymnasium.envs.classic_control:CartPoleEnv',"
        " max_episode_steps=2)\n"
    )
    command = ["play", "MyPole-v0", "--player", "random", "--seed", "1"]
    assert main(command) == 2
    assert main([*command, "--import", "my_worlds"]) == 0
    assert "[max_steps after 2 turns, return 2]" in capsys.readouterr().out
    assert main(["play", "my_worlds:MyPole-v0", "--player", "random", "--seed", "1"]) == 0
    assert main(["list", "MyPole", "--all", "--import", "my_worlds"]) == 0
    sys.modules.pop("my_worlds")
    gym.registry.pop("MyPole-v0")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TextGame", "llm_gym/TextGame-v0"),
        ("llm_gym/TextGaem-v0", "llm_gym/TextGame-v0"),
        ("textgame-v0", "llm_gym/TextGame-v0"),
        ("llm_gym/TextGame-v7", "llm_gym/TextGame-v0"),
        ("cartpole", "CartPole-v1"),
    ],
)
def test_an_unknown_id_suggests_the_closest_one(given, meant):
    with pytest.raises(ConfigError) as caught:
        find_spec(given)
    assert str(caught.value) == f"there is no environment {given!r}; did you mean {meant}?"


@pytest.mark.parametrize("given", ["my/Thing-v3", "a b", "", ":"])
def test_an_unknown_id_without_a_close_one_explains_module_class(given):
    with pytest.raises(ConfigError, match="MODULE:Class"):
        find_spec(given)


@pytest.mark.parametrize(
    ("env_id", "setting", "sentence"),
    [
        ("llm_gym/TextGame-v0", "room", "it has no setting 'room'; did you mean 'rooms'?"),
        ("llm_gym/TextGame-v0", "penalti", "it has no setting 'penalti'; did you mean 'penalty'?"),
        ("CartPole-v1", "x", "it has no setting 'x'; it has render_mode, sutton_barto_reward"),
    ],
)
def test_an_unknown_setting_suggests_the_closest_one_or_all(env_id, setting, sentence):
    with pytest.raises(ConfigError) as caught:
        llm_gym.make_vec(env_id, 1, **{setting: 3})
    assert str(caught.value) == f"cannot build {env_id}: {sentence}"


@pytest.fixture
def made():
    """Register an id that a function makes; remove it again."""

    def register(function):
        gym.register("tests/Made-v0", entry_point=function)
        return "tests/Made-v0"

    yield register
    gym.registry.pop("tests/Made-v0", None)


def test_an_unknown_setting_of_a_factory_is_named(made):
    with pytest.raises(ConfigError, match=r"it has no setting 'size'$"):
        llm_gym.make_vec(made(lambda: gym.make("CartPole-v1")), 1, size=3)


def test_a_type_error_inside_a_factory_is_raised_unchanged(made):
    with pytest.raises(TypeError, match="'colour'"):
        llm_gym.make_vec(made(lambda size: make_nothing(colour=size)), 1, size=3)


def make_nothing():
    raise AssertionError("never called")

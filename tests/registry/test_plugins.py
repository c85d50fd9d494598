"""Environments of other packages: found, named, listed; and broken ones skipped."""

import json
import sys

import gymnasium as gym
import pytest

from llm_gym.cli import main
from llm_gym.core.errors import ConfigError
from llm_gym.registry import plugins

MODULE = """
import gymnasium as gym
from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv

NUMBER = 5

class OneEnv(GuessTheNumberEnv):
    pass

class NoEnv:
    pass

def register():
    gym.register(id="fake/Two-v0", entry_point="fake_envs:OneEnv", kwargs={"high": 3})

def half():
    gym.register(id="fake/Half-v0", entry_point="fake_envs:OneEnv")
    raise RuntimeError("no more disk")

def steal():
    gym.registry["CartPole-v1"] = gym.spec("Acrobot-v1")
"""
ENTRIES = """
[llm_gym.envs]
fake/One-v0 = fake_envs:OneEnv
two = fake_envs:register
half = fake_envs:half
steal = fake_envs:steal
missing = fake_envs:nothing
gone = no_such_module:register
not an id = fake_envs:OneEnv
constant = fake_envs:NUMBER
class = fake_envs:NoEnv
"""


@pytest.fixture(autouse=True)
def _fake_package(tmp_path, monkeypatch):
    (tmp_path / "fake_envs.py").write_text(MODULE)
    info = tmp_path / "fake_envs-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-envs\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(gym.registry)
    plugins.load_plugins.cache_clear()
    yield
    plugins.load_plugins.cache_clear()
    gym.registry.clear()
    gym.registry.update(before)
    sys.modules.pop("fake_envs", None)


def ours():
    return {p.name: p for p in plugins.load_plugins() if p.package == "fake-envs 1.2"}


def test_a_plugin_is_a_class_under_its_id_or_a_function_that_registers():
    assert "fake_envs" not in sys.modules
    assert ours()["fake/One-v0"].ids == ("fake/One-v0",)
    assert ours()["two"].ids == ("fake/Two-v0",)
    env = gym.make("fake/Two-v0")
    assert "from 1 to 3" in env.reset(seed=0)[0]
    assert gym.make(gym.envs.registration.EnvSpec.from_json(gym.spec("fake/One-v0").to_json()))


def test_a_broken_plugin_is_skipped_with_the_reason_and_leaves_nothing_behind():
    problems = {name: plugin.problem for name, plugin in ours().items()}
    assert problems["half"] == "RuntimeError: no more disk"
    assert "fake/Half-v0" not in gym.registry
    assert "AttributeError" in problems["missing"]
    assert "No module named 'no_such_module'" in problems["gone"]
    assert problems["not an id"]
    for name in ("constant", "class"):
        assert "is neither a gymnasium.Env class nor a function" in problems[name]
    assert "it replaces CartPole-v1, which is somebody else's" in problems["steal"]
    assert gym.spec("CartPole-v1").id == "CartPole-v1"
    assert (
        str(ours()["half"]) == "the plugin half of fake-envs 1.2 was skipped: " + problems["half"]
    )


def test_loading_twice_does_nothing_the_second_time():
    assert plugins.load_plugins() is plugins.load_plugins()


def test_an_id_of_a_plugin_is_found_without_asking_for_plugins():
    assert plugins.find_spec("fake/One-v0").entry_point == "fake_envs:OneEnv"
    with pytest.raises(ConfigError, match=r"no environment 'fake/Nine-v0'.*no more disk"):
        plugins.find_spec("fake/Nine-v0")


def test_list_all_says_whose_they_are_and_which_are_broken(capsys):
    assert main(["list", "--all"]) == 0
    out, err = capsys.readouterr()
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "fake-envs 1.2" in lines["fake/One-v0"]
    assert "gymnasium" in lines["CartPole-v1"]
    assert lines["llm_gym/TextGame-v0"].split()[1] == "llm_gym"
    assert "the plugin half of fake-envs 1.2 was skipped: RuntimeError: no more disk" in err
    assert main(["list", "fake/One", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"fake/One-v0": {"from": "fake-envs 1.2"}}


def test_list_without_all_shows_the_suite_only(capsys):
    assert main(["list", "fake/One"]) == 2
    assert main(["list", "CartPole"]) == 2
    assert "'CartPole'" in capsys.readouterr().err


def test_play_takes_the_id_of_a_plugin(capsys):
    assert main(["play", "fake/One-v0", "--player", "oracle", "--seed", "0"]) == 0
    assert "[won after" in capsys.readouterr().out


def test_import_registers_what_a_module_brings(tmp_path, monkeypatch, capsys):
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

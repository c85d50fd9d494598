"""Settings of the wrong type or value are refused in every environment."""

import inspect
import pickle
from fractions import Fraction
from numbers import Integral

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import _kinds, check_types, plain
from llm_gym.registry.suite import ENVS
from llm_gym.vector import make_vec
from tests.matrix import FIRST_OF_CLASS

WRONG = {
    "int": (2.5, True, "x", float("nan"), [3]),
    "float": (True, "x", [0.5]),
    "bool": ("no", 2, 0.0),
    "str": (5, b"x", ["a"]),
}


CLASSES = pytest.mark.parametrize(
    "row", [row for row in ENVS if row.id in FIRST_OF_CLASS], ids=lambda row: row.id
)


def defaults(*classes):
    return {
        each.name: each.default
        for cls in classes
        if "__init__" in vars(cls)
        for each in inspect.signature(vars(cls)["__init__"]).parameters.values()
        if each.default is not each.empty
    }


@CLASSES
def test_every_setting_is_checked_for_its_type(row):
    cls = gym.envs.registration.load_env_creator(row.entry_point)
    own = inspect.signature(cls.__init__).parameters
    common = inspect.signature(TextEnv.__init__).parameters
    checked = 0
    for name in {*own, *common} & set(_kinds(cls)):
        kind = inspect.formatannotation(_kinds(cls)[name]).removesuffix(" | None")
        for value in WRONG.get(kind, ()):
            with pytest.raises(ConfigError, match=rf"^{name} must be .*, got"):
                cls(**{**row.kwargs, name: value})
            checked += 1
    assert checked >= 20


@pytest.mark.parametrize("row", ENVS, ids=lambda row: row.id)
def test_every_default_has_its_annotated_type(row):
    cls = gym.envs.registration.load_env_creator(row.entry_point)
    assert defaults(*cls.__mro__)
    check_types(cls, defaults(*cls.__mro__) | row.kwargs)


def test_numpy_numbers_are_accepted():
    env = gym.make("llm_gym/GuessTheNumber-v0", low=np.int64(1), high=np.int32(9), penalty=0)
    env.reset(seed=0, options={"difficulty": np.float32(0.5)})
    assert pickle.loads(pickle.dumps(env)).unwrapped.low == 1


def of_numpy(value):
    kinds = {bool: np.bool_, int: np.int64, float: np.float64}
    return kinds[type(value)](value) if type(value) in kinds else value


@CLASSES
def test_numpy_numbers_play_the_same_game(row):
    cls = gym.envs.registration.load_env_creator(row.entry_point)
    settings = defaults(TextEnv, cls) | row.kwargs
    episodes = []
    for given in (settings, {name: of_numpy(value) for name, value in settings.items()}):
        env = cls(**given)
        episodes.append([env.reset(seed=3)[0], *(type(getattr(env, name)) for name in row.kwargs)])
        ended = False
        while not ended:
            text, _, ended, _, info = env.step(env.random_action())
            episodes[-1] += [text, repr(info)]
        env.close()
    assert episodes[0] == episodes[1]


def test_error_messages_shorten_long_values():
    with pytest.raises(ConfigError, match="action_format") as caught:
        gym.make("llm_gym/Maze-v0", action_format="x" * 1_000_000)
    assert len(str(caught.value)) < 5000
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("abc", "options"), (0, "options"), ([1], "options"), ({1: 2, "x": 3}, "'1', 'x'"),
        ({"split": "exam"}, "split"), ({"difficulty": -1}, "difficulty"),
        ({"difficulty": "x"}, "difficulty"), ({"difficulty": True}, "difficulty"),
    ],
)  # fmt: skip
def test_odd_options_are_refused_and_the_episode_goes_on(options, message):
    env = gym.make("llm_gym/GuessTheNumber-v0")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.reset(options=options)
    assert env.step("5")[4]["valid_action"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("GuessTheNumber", {"high": 2**70}),
        *(
            (name, {"max_turns": turns})
            for turns in (10**9, 10**30)
            for name in ("Game2048", "Echo", "Bandit")
        ),
        ("Memory", {"delay": 10**30}),
        ("MathPython", {"kinds": None}),
        ("MathPython", {"kinds": "story"}),
    ],
)
def test_impossible_settings_are_refused(name, settings):
    with pytest.raises(ConfigError, match="must be"):
        gym.make(f"llm_gym/{name}-v0", **settings)


@Integral.register
class Whole:
    """A whole number of another library."""

    def __int__(self):
        return 10**30


def test_plain_keeps_integers_of_any_type():
    assert plain(Whole()) == 10**30
    assert isinstance(plain(Whole()), int)
    assert isinstance(plain(Fraction(1, 2)), float)
    assert plain(True) is True


@pytest.mark.parametrize("kind", [ConfigError, TypeError])
def test_a_setting_that_is_not_there_is_named_with_the_one_that_was_meant(kind):
    with pytest.raises(kind, match=r"^TextGameEnv has no setting 'room'; did you mean 'rooms'"):
        gym.make("llm_gym/TextGame-v0", room=3)
    with pytest.raises(kind, match="EchoEnv has no setting 'xyzzy'; it has action_format, "):
        gym.make("llm_gym/Echo-v0", xyzzy=3)
    with pytest.raises(ConfigError, match="cannot build llm_gym/TextGame-v0: it has no setting 'r"):
        make_vec("llm_gym/TextGame-v0", 2, room=3)

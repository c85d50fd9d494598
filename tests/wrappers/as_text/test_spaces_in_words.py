"""AsText over every kind of space: shown, written and read, and no text raises."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.wrappers import AsText
from tests.wrappers.as_text.plain_envs import Echo, started
from tests.wrappers.hostile_texts import TEXTS

NESTED = spaces.Dict(
    robot=spaces.Dict(arm=spaces.Box(-1, 1, (2,)), grip=spaces.Discrete(3)),
    lamps=spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))),
    say=spaces.Text(8),
)
ACTION_SPACES = {
    "discrete": spaces.Discrete(4),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "many choices": spaces.Discrete(100_000),
    "choices of 19 digits": spaces.Discrete(2**62, start=-(2**61)),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-discrete square": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi-discrete from 5": spaces.MultiDiscrete([2, 2], start=[5, -5]),
    "multi-binary": spaces.MultiBinary(3),
    "multi-binary square": spaces.MultiBinary([2, 2]),
    "box": spaces.Box(-1, 1, (3,)),
    "box of one": spaces.Box(0, 1, ()),
    "box of doubles": spaces.Box(-1e300, 1e300, (2,), np.float64),
    "box without bounds": spaces.Box(-np.inf, np.inf, (2,)),
    "box with one bound": spaces.Box(
        np.array([0, -np.inf], np.float32), np.array([np.inf, 5], np.float32)
    ),
    "box of bytes": spaces.Box(0, 255, (2, 2), np.uint8),
    "box of longs": spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64),
    "narrow box": spaces.Box(np.float32(0.1234567), np.float32(0.1234568), (2,)),
    "large box": spaces.Box(0, 1, (20, 20)),
    "text": spaces.Text(12),
    "text of dots": spaces.Text(5, min_length=2, charset=".-"),
    "dict": spaces.Dict(gear=spaces.Discrete(3), wheel=spaces.Box(-1, 1)),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
    "nested": NESTED,
}
each_space = pytest.mark.parametrize("space", ACTION_SPACES.values(), ids=ACTION_SPACES)


@each_space
def test_a_written_action_is_read_back(space):
    env = started(Echo(action_space=space))
    reader, rng = env.book.reader, np.random.default_rng(0)
    for number in range(30):
        space.seed(number)
        for action in (space.sample(), reader.draw(rng)):
            assert action in space
            move = reader.write(action)
            again = reader.read(move)
            assert again in space
            assert repr(again) == repr(action) or move == reader.write(again)
            assert re.fullmatch(reader.pattern(), move)


@each_space
def test_usable_actions_reach_the_environment_inside_its_space(space):
    for action_format in ("plain", "tag", "boxed", "json", "react"):
        env = started(Echo(action_space=space), action_format=action_format)
        for action in (env.random_action(), env.action_space.sample()):
            assert env.step(action)[4]["valid_action"], action
            assert re.fullmatch(env.action_pattern(), action)
        assert all(action in space for action in env.unwrapped.got)


@each_space
def test_no_hostile_text_raises_or_leads_outside_the_space(space):
    env = started(Echo(action_space=space), invalid="feedback", max_invalid=1000)
    for text in TEXTS:
        observation, *_, info = env.step(text)
        assert observation in env.observation_space
        assert info["valid_action"] == bool(env.unwrapped.got)
        assert all(action in space for action in env.unwrapped.got)
        env.unwrapped.got.clear()


@given(text=st.text(), name=st.sampled_from(sorted(ACTION_SPACES)))
def test_no_text_raises(text, name):
    env = started(Echo(action_space=ACTION_SPACES[name]))
    env.step(text)
    assert all(action in ACTION_SPACES[name] for action in env.unwrapped.got)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("discrete", "03", None),
        ("discrete", "4", None),
        ("discrete", "0.5", None),
        ("discrete", "The speed is 1.5 now.", None),
        ("discrete", "Answer: 2%", None),
        ("discrete", "1,000", None),
        ("discrete", "7 0", None),
        ("discrete", "There are 3 obstacles.", None),
        ("discrete", "It took 3 turns.", None),
        ("discrete", "There are 3 walls, so I take 2.", 2),
        ("discrete", "I take 2, as 0.5 is low.", 2),
        ("discrete from -2", "-2", -2),
        ("many choices", "99999", 99_999),
        ("many choices", "100000", None),
        ("multi-discrete", "[2, 1]", [2, 1]),
        ("multi-discrete", "2, 2", None),
        ("multi-discrete", "1", None),
        ("multi-discrete", "0 1 1", None),
        ("multi-binary", "1 0 1", [1, 0, 1]),
        ("multi-binary", "1 0 2", None),
        ("box", "(0.5, -1, .25)", [0.5, -1, 0.25]),
        ("box", "0.5 -1 1.01", None),
        ("box", "0 0 nan", None),
        ("box", "0 0 0 0", None),
        ("box of one", "1", 1.0),
        ("box without bounds", "1e30 0", [1e30, 0]),
        ("box without bounds", "1e39 0", None),  # infinite as a float32
        ("box without bounds", "inf 0", None),
        ("box with one bound", "-1 0", None),
        ("box of longs", "9223372036854775807", [2**63 - 1]),
        ("box of longs", "9007199254740993", [2**53 + 1]),  # no float of 64 bits
        ("box of longs", "9223372036854775808", None),
        ("box of bytes", "0 255 7 1", [[0, 255], [7, 1]]),
        ("box of bytes", "0 255 7 1.5", None),
        ("box of bytes", "0 256 7 1", None),
        ("text", "hello", "hello"),
        ("text", "hello there, world", None),
        ("tuple", "[1, [0.5, 1]]", (1, [0.5, 1])),
        ("tuple", "[1]", None),
        ("tuple", "[1, [0.5, NaN]]", None),
        ("tuple", "[2, [0, 0]]", None),
    ],
)
def test_texts_are_read_as_these_actions(name, text, expected):
    env = started(Echo(action_space=ACTION_SPACES[name]), invalid="feedback")
    assert env.step(text)[4]["valid_action"] is (expected is not None)
    for got in env.unwrapped.got:
        if isinstance(expected, tuple):
            assert got[0] == expected[0]
            assert np.allclose(got[1], expected[1])
        else:
            assert np.all(got == np.asarray(expected, dtype=getattr(got, "dtype", None)))


def test_a_nested_action_is_json_and_errors_name_the_key():
    env = started(Echo(action_space=NESTED))
    action = {
        "robot": {"arm": [0.5, -1], "grip": 2}, "lamps": [[1, 0], [1, 2]], "say": "hi",
    }  # fmt: skip
    assert env.step(json.dumps(action))[4]["valid_action"]
    assert env.unwrapped.got[0]["robot"]["grip"] == 2
    action["robot"]["grip"] = 3
    answer = env.step(json.dumps(action))[0]
    assert 'In "robot": In "grip": Your move must be a whole number from 0 to 2.' in answer
    del action["robot"]
    assert "a JSON object with" in env.step(json.dumps(action))[0]


def shown(space, value):
    return AsText(Echo(space, value), rules="system").reset(seed=0)[0]


BOARD = np.full((20, 20), np.nan)
BOARD[0, 0], BOARD[1, 1], BOARD[2, 2] = 0.0, 1.0, np.inf
ROW, ANY = spaces.Sequence(spaces.Discrete(3)), spaces.Box(-np.inf, np.inf, (3,))


class Unknown(gym.Space):
    def contains(self, x):
        return True


@pytest.mark.parametrize(
    ("space", "value", "text"),
    [
        (spaces.Discrete(9), np.int64(4), "4"),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), "1 0 1"),
        (spaces.MultiDiscrete([5, 5]), np.array([4, 0]), "4 0"),
        (spaces.Text(99), "Hello,\nworld", "Hello,\nworld"),
        (spaces.Box(0, 9, (2, 3), np.int64), np.arange(6).reshape(2, 3), "0 1 2\n3 4 5"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2, 2)))), (1, np.eye(2)),
         "1: 1\n2:\n  1 0\n  0 1"),
        (ANY, np.array([np.nan, np.inf, -np.inf], np.float32), "nan inf -inf"),
        (ANY, np.full((20, 20), np.nan), "20 by 20 numbers, none of them finite"),
        (ANY, np.arange(1000, dtype=np.float32),
         "1000 numbers, 0 to 999, mean 499.5; the first are 0 1 2 3 4 5 6 7"),
        (ROW, (1, 2), "1: 1\n2: 2"), (ROW, (), "nothing"),
        (ROW, (1,) * 34, "\n".join([*(f"{at}: 1" for at in range(1, 33)), "... 2 more"])),
        (Unknown(), (1, "x"), "(1, 'x')"),
    ],
)  # fmt: skip
def test_observations_are_shown_as_these_texts(space, value, text):
    assert shown(space, value) == text


def test_a_summary_counts_finite_numbers():
    assert shown(ANY, BOARD).startswith("20 by 20 numbers, 0 to 1, mean 0.5, 398 not finite\n")
    huge = np.array([[1.7e308, -1.7e308] * 100] * 2)
    assert "-1.7e+308 to 1.7e+308, mean 0" in shown(ANY, huge)


def test_a_large_picture_is_summarised_on_a_coarse_grid():
    picture = np.zeros((96, 96, 3), np.uint8)
    picture[:48, 48:] = 255
    lines = shown(spaces.Box(0, 255, (96, 96, 3), np.uint8), picture).splitlines()
    assert lines[0] == "96 by 96 by 3 numbers, 0 to 255, mean 63.75"
    assert lines[2:] == ["0000000099999999"] * 8 + ["0000000000000000"] * 8
    channels_first = np.moveaxis(picture, -1, 0)
    assert (
        shown(spaces.Box(0, 255, (3, 96, 96), np.uint8), channels_first).splitlines()[2:]
        == lines[2:]
    )


@pytest.mark.parametrize(
    "value",
    [None, "a word", object(), {}, {"robot": 3}, np.array(["x"]), [[1], [2, 3]], b"\xff", np.inf,
     [10**400, 2]],
)  # fmt: skip
def test_a_value_outside_its_space_is_shown(value):
    for space in (NESTED, spaces.Box(0, 1, (2,)), spaces.Discrete(3), spaces.MultiBinary(2)):
        assert isinstance(shown(space, value), str)


def test_every_sampled_observation_fits_the_space():
    for space in [*ACTION_SPACES.values(), spaces.Sequence(spaces.Discrete(3))]:
        space.seed(0)
        for _ in range(10):
            env = AsText(Echo(space, space.sample()), max_observation_chars=200)
            text, _ = env.reset(seed=0)
            assert text in env.observation_space

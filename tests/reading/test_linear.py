"""Reading is linear in the reply and bounded, counted in characters that patterns are given."""

import re

import gymnasium as gym
import pytest

from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.envs.shared.word_list import find_words
from llm_gym.reading import answer, formats, markup, moves
from llm_gym.reading.moves import find_numbers
from tests.matrix import some_of
from tests.work import ends_at_all, steps_of

PIECES = [
    "1=1=", "1+", "1 2 ", "((((", "**", "*", "'", '"', "{", '{"a":', '{"action":', "[", "[[", "```",
    "<action>", "</action>", "<", "<think>", "</think>", "<reasoning>", "</reasoning>", "[THINK]",
    "\u25c1", "<|a|>", "<|im_end|>", "</s>", "[/INST]", "\\boxed{", "\\text{", "\\", "Action: ",
    "Action: a\n", "move: move: ", "answer is ", "up. ", "up,", "up or ", "up and then ", "go ",
    "not ", "or else ", "I really ", "Wait. ", "a. No, wait, ", ", no", "no wait ", "? ", "\n",
    " \n", "\t", "User", "a b c\n", "- up\n", "~~", "\uff17", "\u7b54", "\U0001f600", "\ud800",
]  # fmt: skip
GAMES = (
    "Maze", "SearchQA",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("GuessTheNumber", "Sudoku")),
)  # fmt: skip


class Counted:
    """A pattern that counts the characters that it is given."""

    given = 0

    def __init__(self, pattern):
        self.pattern = pattern

    def __getattr__(self, name):
        method = getattr(self.pattern, name)

        def call(*args, **kwargs):
            at = 1 if name == "sub" else 0
            start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
            Counted.given += len(args[at]) - (start if name != "split" else 0)
            return method(*args, **kwargs)

        return call if callable(method) else method


@pytest.fixture
def counted(monkeypatch):
    """Count what every pattern of the reader is given."""
    for module in (answer, formats, markup, moves):
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                monkeypatch.setattr(module, name, Counted(value))


def play(env, piece, size):
    env.reset(seed=0)
    return env.step(piece * (size // len(piece)))[0]


@pytest.mark.parametrize("game", GAMES)
def test_each_character_is_scanned_at_most_forty_times(game, counted):
    env = gym.make(f"llm_gym/{game}-v0")
    for piece in PIECES:
        for size in (2_000, 32_000):
            Counted.given = 0
            play(env, piece, size)
            assert Counted.given <= 40 * size + 20_000, (piece, size)


@pytest.mark.parametrize("game", GAMES)
def test_the_work_grows_linearly_with_the_reply(game):
    env = gym.make(f"llm_gym/{game}-v0")
    for piece in PIECES:
        small, large = (steps_of(play, env, piece, size) for size in (2_000, 8_000))
        assert large <= 4.4 * small + 2_000, (piece, small, large)


@pytest.mark.parametrize("game", GAMES)
def test_a_very_long_reply_is_read(game):
    # A pattern that backtracks would take hours.
    env = gym.make(f"llm_gym/{game}-v0")
    with ends_at_all():
        for piece in PIECES:
            assert isinstance(play(env, piece, 100_000), str)


@pytest.mark.parametrize("piece", PIECES)
def test_finders_get_bounded_parts_of_a_reply(piece):
    lengths = []

    def find(text):
        lengths.append(len(text))
        return find_numbers(text)

    moves.judge(piece * (200_000 // len(piece)), find)
    assert max(lengths, default=0) <= 600
    assert sum(lengths) <= moves.WINDOW


LONG = 100_000
SIGNS = ["9", "1/", "1 + ", "1 2 ", "\t", "\\", "e5", "5 \\abc{", "9,", "\u0301", "x=", "'a", "- "]


@pytest.mark.parametrize(("piece", "end"), some_of(SIGNS, ["", "no good", "7 ="]))
def test_numbers_and_words_are_found_in_one_pass(piece, end):
    text = piece * (LONG // len(piece)) + end
    assert isinstance(is_bare(text), bool)
    assert parse_number(text) is None
    assert sum(1 for _ in find_numbers(text)) <= LONG
    assert sum(1 for _ in find_words(text[:20_000], (1, 5))) <= LONG


def test_a_chain_of_numbers_is_a_sum_only_where_its_result_follows():
    assert [move for *_, move in find_numbers("1 + 2 + 3 = 6 and 1/2/3")] == ["6", "1", "2", "3"]
    assert [move for *_, move in find_numbers("12*3 gives 36")] == ["36"]

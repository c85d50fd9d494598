"""The reader of replies: the order of reading, what is no move, and what it costs."""

import json
import re

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.envs import replies
from benchmarks.envs.phrasings import ACCEPTED, REFUSED, is_tuned
from llm_gym.reading.answer import readings
from llm_gym.reading.formats import FORMATS
from llm_gym.reading.markup import undress
from llm_gym.reading.moves import judge


def step(name, reply, seed=0, **settings):
    env = gym.make(f"llm_gym/{name}-v0", **settings)
    env.reset(seed=seed)
    return env.step(reply)


def read(name, reply, **settings):
    """Return what was read, how, and whether it was played."""
    info = step(name, reply, **settings)[4]
    return info["move"], info["reader"], info["valid_action"]


@pytest.mark.parametrize(
    ("reply", "move", "how"),
    [
        ("up", "up", "format"),
        ("Let me see.\nup", "up", "format"),
        ("<action>left</action>\nup", "left", "tag"),
        ("Left is out of the question, I go up.\n<Action>right", "right", "tag"),
        (r"So \boxed{\text{up}}.", "up", "boxed"),
        ("{'action': 'up'}", "up", "json"),
        ("**Action:** up\nAnd that is that.", "up", "label"),
        ("```\nup\n```\nThat is it.", "up", "fence"),
        ("I take [up] now, hoping for the best", "up", "named"),
        ("I thought about left.\n**Up.**", "Up", "last line"),
        ("I will go up, since left is a wall.", "up", "named"),
        ("I go up. Then I go right.", "up", "named"),
        ("The wall is left.\nI go right.", "right", "named"),
    ],
)
def test_markers_come_before_the_last_line_and_that_before_named_moves(reply, move, how):
    assert read("Maze", reply) == (move, how, True)


@pytest.mark.parametrize(
    ("reply", "how", "explanation"),
    [
        ("left or right", "doubt", "I read left and right in your reply, but in doubt"),
        ("I go left. I go right.", "two", "more than one move: left and right"),
        ("Do not go left.", "denial", "I read left in your reply, but as what not to play"),
        ("Should I go left?", "question", "I read left in your reply, but as a question"),
        ("left?", "question", "as a question"),
        ("<action>left</action> or <action>up</action>", "two", "more than one move"),
        ("<action>left or right</action>", "doubt", "in doubt"),
        ("I like mazes.", "format", "Your move must be up, down, left or right."),
        ("", "nothing", "I found no move in your reply."),
    ],
)
def test_a_reply_without_a_move_is_refused_with_an_explanation(reply, how, explanation):
    text, _, _, _, info = step("Maze", reply)
    assert (info["valid_action"], info["reader"]) == (False, how)
    assert explanation in text


def test_a_quoted_observation_is_no_move():
    for name in ("Maze", "Sokoban", "FrozenLake", "Game2048", "TicTacToe", "GuessTheNumber"):
        env = gym.make(f"llm_gym/{name}-v0")
        observation = env.reset(seed=0)[0]
        assert not env.step(observation)[4]["valid_action"], name
    assert read("Maze", "Turns left: 50.\nExample of the form: right")[2] is False
    quoting = "Your move is up, down, left or right, one cell at a time.\nTurns left: 50.\nI go up"
    assert read("Maze", quoting) == ("up", "named", True)


def test_the_last_word_of_a_cut_sentence_is_no_command():
    assert read("CookingWorld", "I am hungry.\n\nI")[2] is False
    assert read("CookingWorld", "inventory")[2] is True


@pytest.mark.parametrize("reply", ["**up**", "I go up.", "<answer>up</answer>", "[up]?"])
def test_strict_refuses_moves_in_sentences_and_markup(reply):
    assert read("Maze", reply, strict=True)[2] is False
    assert read("Maze", "Hm.\nup", strict=True) == ("up", "format", True)


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in ("plain", "raw")])
def test_strict_reads_only_its_own_format(form):
    own = FORMATS[form].render("up")
    assert read("Maze", own, strict=True, action_format=form)[2] is True
    assert read("Maze", "up", strict=True, action_format=form)[2] is False
    assert read("Maze", "up", action_format=form)[2] is True


def test_an_illegal_move_in_a_sentence_is_refused_with_the_reason():
    text, *_, info = step("TicTacToe", "I take square 1, of course.")
    assert (info["move"], info["valid_action"]) == ("1", False)
    assert text.startswith("Square 1 is taken.")


def test_tool_calls_are_read_in_fences_blocks_and_sentences():
    for reply in (
        "```py\nprint(6 * 7)\n```\nThis prints it.",
        "python:\nprint(6 * 7)",
        "Sure!\n**python: print(6 * 7)**",
    ):
        text, *_, info = step("MathPython", reply)
        assert info["move"] == "python: print(6 * 7)", reply
        assert text.startswith("42"), reply
    assert read("SearchQA", "I will search for Mila Farrow.")[0] == "search: Mila Farrow"
    assert read("SearchQA", "search: Mila or search: Norvik")[2] is False


@pytest.fixture(scope="module")
def rows():
    return [row for row in replies.table(seeds=1) if row["tuned"]]


def test_the_tuned_phrasings_are_read_right_in_nearly_every_game(rows):
    shares = replies.shares(rows)
    assert shares["accepted tuned"] >= 0.99
    assert shares["refused tuned"] >= 0.99


def test_the_table_of_phrasings_is_large_and_split_by_hash():
    assert len(ACCEPTED) >= 60 <= len({*ACCEPTED, *REFUSED})
    assert 0.35 < sum(map(is_tuned, ACCEPTED + REFUSED)) / len(ACCEPTED + REFUSED) < 0.65


def test_both_halves_of_the_published_table_reach_their_share():
    shares = json.loads(replies.RESULT.read_text())["shares"]
    for half in ("tuned", "untouched"):
        assert shares[f"accepted {half}"] >= 0.95
        assert shares[f"refused {half}"] >= 0.99


def test_recorded_replies_of_a_small_model_are_read_as_published():
    published = json.loads(replies.RESULT.read_text())["smollm2"]
    found = replies.recorded()
    assert replies.summary(found) == published
    assert published["usable"] > published["usable_strict"]
    assert len({row["id"] for row in found}) >= 29


@pytest.mark.parametrize("name", ["GuessTheNumber", "Mastermind", "Wordle", "Hangman", "ChainSum"])
@settings(max_examples=15)
@given(data=st.data())
def test_every_match_of_a_move_pattern_is_read_unchanged(name, data):
    env = gym.make(f"llm_gym/{name}-v0")
    env.reset(seed=0)
    pattern = env.unwrapped.move_pattern()
    move = data.draw(st.from_regex(pattern, fullmatch=True))
    assert env.step(move)[4]["move"] == move


class Game:
    """A game with one move."""

    free_text = mention_is_answer = False

    def __init__(self, move):
        self.move = move

    def finder(self):
        return None

    def named_moves(self, text):
        at = text.lower().find(self.move)
        return iter([(at, at + len(self.move), self.move)] if at >= 0 else [])

    def marked_move(self, label, text):
        return text


@given(st.text())
def test_no_text_raises_in_the_reader(text):
    found = list(readings(text, Game("x"), (text[::-1],)))
    assert all(one.move is None or isinstance(one.move, str) for one in found)
    assert isinstance(undress(text), str)


def test_wait_can_be_a_move():
    found = list(readings("The guard is near. Wait.", Game("wait"), ()))
    assert found[-1].move == "wait"


@pytest.mark.parametrize(
    ("name", "reply", "found"),
    [
        ("TicTacToe", "I guess s\u0131x.", ("6", "named", True)),
        ("TicTacToe", "My move is \u017fEVEN.", ("7", "named", True)),
        ("Maze", "I go r\u0131ght, not left.", ("right", "named", True)),
        ("AsText", "I will go R\u0130GHT.", ("push right", "named", True)),
        ("CoinCollector", "I choose h\u0131t", ("I choose h\u0131t", "format", False)),
        ("ChainSum", "5 m\u0131llion", ("5 m\u0131llion", "format", True)),
    ],
)
def test_letters_that_fold_to_ascii_do_not_raise(name, reply, found):
    assert read(name, reply) == found


@given(st.sampled_from(["not x", "x or y", "x?", "maybe x", "never x", "if x then z"]))
def test_a_denied_doubted_or_questioned_move_is_refused(text):
    def find(sentence):
        return [(m.start(), m.end(), m[0]) for m in re.finditer(r"\b[xy]\b", sentence)]

    assert judge(text, find).move is None


@pytest.mark.parametrize("name", replies.NATURAL)
def test_natural_replies_are_read_as_published(name):
    found = replies.natural(name)
    assert found == json.loads(replies.RESULT.read_text())["natural"][name]
    assert found["refused"] >= 0.96
    if name not in replies.UNSEEN:
        assert found["as_meant"] >= 0.96
        assert found["another"] <= 0.003

"""Graders: what each pays, what it refuses, and that no text costs more than linear time."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.datasets.graders import (
    GRADERS,
    ContainsGrader,
    FunctionGrader,
    NumberGrader,
    get_grader,
)
from llm_gym.datasets.numbers import is_stated, parse_number, write_number
from llm_gym.evaluate.checker import HOSTILE
from tests.matrix import some_of
from tests.work import ends_at_all, steps_of


def grade(name, reply, answer, choices=()):
    """Return 1.0, 0.0, or None for a reply that cannot be used."""
    grader = get_grader(name)
    value = grader.value(reply, choices)
    return None if value is None else grader.score(value, grader.key(answer, choices))


CITIES = ("Paris", "Rome", "Bern")
EVERYTHING = " ".join(map(str, range(100)))
FINE, COARSE = get_grader("number"), NumberGrader(tolerance=0.01)
# fmt: off
GRADED = [
    # Case, quotes and a full stop are passed over; nothing else is.
    ("exact", "Nile", (), 1.0,
     ["Nile", " nile. ", '"Nile"', "NILE!", "**Nile**", "\u201cNile\u201d", "Nile\n"]),
    ("exact", "Nile", (), 0.0, ["the Nile", "Nile or Amazon", "Nil", "not Nile", "?", "..."]),
    ("exact", "5", (), 0.0, [".5"]), ("exact", "-5", (), 0.0, ["5"]),
    ("exact", "C++", (), 0.0, ["C"]), ("exact", "...", (), 1.0, ["..."]),
    ("exact", "caf\u00e9", (), 1.0, ["cafe\u0301"]),
    # Listing numbers never pays, and they are compared exactly unless a tolerance is set.
    ("number", 42, (), None, [EVERYTHING, EVERYTHING.replace(" ", ",")]),
    (FINE, "1/3", (), 0.0, ["0.333"]), (COARSE, "1/3", (), 1.0, ["0.333"]),
    (COARSE, 1, (), 0.0, ["1.02"]), (FINE, "0.3", (), 0.0, ["0.30000000000000000001"]),
    (FINE, 3.5, (), 1.0, ["3.50"]),
    # A choice is one letter in any dress, or the text of an option; if it may be both, the letter.
    ("choice", "B", (), 1.0,
     ["B", "b", "(B)", "[b]", "B.", "B)", "B:", "**B**", "Answer: B", "The answer is (B).",
      "option B", "The correct choice is b"]),
    ("choice", "B", (), None, ["A or B", "A B", "AB", "B and C", "", "options", "A dog", "1"]),
    ("choice", "B", CITIES, 1.0, ["rome", "B) Rome."]), ("choice", 1, CITIES, 1.0, ["Rome"]),
    ("choice", "Rome", CITIES, 0.0, ["A"]), ("choice", "B", CITIES[:2], None, ["A) Rome", "Z"]),
    ("choice", 0, ("B", "A"), 1.0, ["A"]),
    # A short sentence may contain the answer, but no list, hedge or longer word.
    ("contains", "Paris", (), 1.0,
     ["Paris", "It is Paris.", "the capital, of course, is PARIS!"]),
    ("contains", "Paris", (), 0.0,
     ["Comparison", "Parisian", "Paris or Rome", "not Paris", "It isn't Paris", "Paris/Rome",
      "It isn\u2019t Paris", "Rome; Paris",
      "Bern Bonn Kyiv Lima Oslo Paris Prag Riga Rome Wien"]),
    ("contains", "New York", (), 0.0, ["York New"]), ("contains", "C++", (), 0.0, ["I use C"]),
    ("contains", "C++", (), 1.0, ["I use C++."]),
    (ContainsGrader(extra_words=0), "Paris", (), 1.0, ["Paris"]),
    (ContainsGrader(extra_words=0), "Paris", (), 0.0, ["Paris."]),
]
# fmt: on


@pytest.mark.parametrize(
    ("name", "reply", "answer", "choices", "score"),
    [
        (name, reply, answer, choices, score)
        for name, answer, choices, score, replies in GRADED
        for reply in replies
    ],
)
def test_each_grader_scores_these_replies(name, reply, answer, choices, score):
    assert grade(name, reply, answer, choices) == score


@pytest.mark.parametrize(
    ("grader", "given"),
    [
        *((NumberGrader, {"tolerance": value}) for value in (-0.1, 1.0, float("nan"))),
        (ContainsGrader, {"extra_words": -1}),
    ],
)
def test_a_setting_outside_its_range_is_refused(grader, given):
    with pytest.raises(ConfigError, match=next(iter(given))):
        grader(**given)


@pytest.mark.parametrize(
    ("name", "answer", "reply"),
    [
        ("exact", " Nile. ", "Nile."),
        ("number", "half of it\n#### $1,000.50", "1000.5"),
        ("choice", "(b)", "B"),
        ("contains", "New York", "New York"),
    ],
)
def test_the_reply_of_a_perfect_player_scores_one(name, answer, reply):
    grader = get_grader(name)
    assert grader.say(answer, grader.key(answer, ())) == reply
    assert grade(name, reply, answer) == 1.0


@pytest.mark.parametrize("name", GRADERS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_replies_are_graded_and_never_paid(name, text):
    answer = "12345" if name == "number" else "B"
    assert grade(name, text, answer) in (None, 0.0)


@pytest.mark.parametrize("name", GRADERS)
@given(text=st.text())
def test_no_reply_raises(name, text):
    assert grade(name, text, "7" if name == "number" else "B") in (None, 0.0, 1.0)


BOMBS = ["9,", "answer is ", "=", "1.", "-", "$ ", r"\frac{1}", "( ", "a ", "'a", "A) "]


@pytest.mark.parametrize(("name", "bomb"), some_of(GRADERS, BOMBS))
def test_long_replies_take_linear_time(name, bomb):
    answer = "7" if name == "number" else "B"
    once, four_times = (
        steps_of(grade, name, bomb * (size // len(bomb)), answer) for size in (1000, 4000)
    )
    assert four_times <= 4.4 * once + 100
    with ends_at_all():  # quadratic work would take an hour
        grade(name, bomb * (400_000 // len(bomb)), answer)


@pytest.mark.parametrize(
    ("name", "answer"),
    [("number", "many"), ("number", "1 or 2"), ("choice", "Rome"), ("choice", 99),
     ("contains", " "), ("exact", None), ("exact", float("nan")), ("exact", ["x"])],
)  # fmt: skip
def test_an_answer_that_cannot_be_graded_is_refused(name, answer):
    grader = get_grader(name)
    with pytest.raises(ValueError, match="answer"):
        grader.key(answer, ())


def test_a_function_of_two_arguments_is_a_grader():
    grader = get_grader(lambda reply, answer: len(reply) / answer)
    assert grader.score("ab", 4) == 0.5
    with pytest.raises(ConfigError, match="reply"):
        get_grader(lambda reply: 1.0)
    assert get_grader(max) == FunctionGrader(max)
    assert hash(get_grader(max)) == hash(FunctionGrader(max))
    assert get_grader(max) != get_grader(min)


@pytest.mark.parametrize("given", [None, "yes", float("nan"), 1.5, -0.1, [1]])
def test_a_function_that_returns_no_score_is_named(given):
    def judge(reply, answer):
        return given

    with pytest.raises(ConfigError, match="judge"):
        get_grader(judge).score("", "")


@pytest.mark.parametrize("name", ["Exact", "", 3, None])
def test_an_unknown_grader_is_named_with_the_choices(name):
    with pytest.raises(ConfigError, match="grader"):
        get_grader(name)


NUMBERS = [
    ("42", 42), ("42.", 42), ("-7", -7), ("\u22127", -7), ("+7", 7), ("007", 7), ("-0", 0),
    ("1,000", 1000), ("1,234,567.5", Fraction(2469135, 2)), ("1{,}000", 1000),
    ("$3.50", Fraction(7, 2)), ("-$3.50", Fraction(-7, 2)), ("\u20ac 20", 20), (r"\$18", 18),
    ("50%", 50), ("12 apples", 12), ("5kg", 5), (".5", Fraction(1, 2)), ("1e3", 1000), ("2x", 2),
    ("1e0003", 1000), ("2.5E-1", Fraction(1, 4)),
    ("3/4", Fraction(3, 4)), ("-3 / 4", Fraction(-3, 4)),
    (r"\frac{3}{4}", Fraction(3, 4)), (r"-\dfrac{1}{2}", Fraction(-1, 2)), ("5 million", 5_000_000),
    ("The answer is 42.", 42), ("Answer: 42", 42), ("6 * 7 = 42", 42), ("x=5", 5),
    (r"so \boxed{42}", 42), (r"\boxed{\frac{1}{3}}", Fraction(1, 3)),
    ("48 / 2 = 24, and 48 + 24 = 72\n#### 72", 72), ("2 plus 2. The answer is 4 cups", 4),
]  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS, ids=[text for text, _ in NUMBERS])
def test_numbers_are_read_in_many_spellings(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "", "none", "12 or 13", "between 1 and 5", "1,5", "12,34", "1.2.3", "3-5", "3:30", "3/0",
        "1 000", "1/2/2024", "2\\frac{1}{2}", "H2O", "nan", "inf", "####", "-$-5", "9" * 5000,
        "the answer is 42 because 6 * 7", "the answer is", "\ud800", "1_000", "0x10", "0xff",
        "5\u00b2", "1\u00bd", "2e1000", "1e3e4", "5x10^3", "1e" + "9" * 5000,
    ],
)  # fmt: skip
def test_text_without_exactly_one_number_is_no_number(text):
    assert parse_number(text) is None


@given(st.fractions(max_denominator=10**6), st.booleans())
def test_a_number_that_is_written_is_read_back(number, spaced):
    text = write_number(number)
    assert parse_number(f"It is {text} ." if spaced else text) == number
    assert re.fullmatch(GRADERS["number"].pattern, text)


@given(st.integers(-(10**12), 10**12))
def test_thousands_may_be_grouped(number):
    assert parse_number(f"{number:,}") == number
    assert parse_number(f"${number:,}.") == number


def test_a_number_inside_a_condition_is_not_stated():
    assert is_stated("If so, the answer is 5")
    assert is_stated("If so it must be 5")
    assert not is_stated("It would be right if it were 5")

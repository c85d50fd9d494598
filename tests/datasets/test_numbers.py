"""Numbers in a text, however people and models write them."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.datasets.graders import GRADERS
from llm_gym.datasets.numbers import is_said, parse_number, write_number

NUMBERS = [
    ("42", 42), ("42.", 42), ("-7", -7), ("\u22127", -7), ("+7", 7), ("007", 7), ("-0", 0),
    ("1,000", 1000), ("1,234,567.5", Fraction(2469135, 2)), ("1{,}000", 1000),
    ("$3.50", Fraction(7, 2)), ("-$3.50", Fraction(-7, 2)), ("\u20ac 20", 20), (r"\$18", 18),
    ("50%", 50), ("12 apples", 12), ("5kg", 5), (".5", Fraction(1, 2)), ("1e3", 1000),
    ("2.5E-1", Fraction(1, 4)), ("3/4", Fraction(3, 4)), ("-3 / 4", Fraction(-3, 4)),
    (r"\frac{3}{4}", Fraction(3, 4)), (r"-\dfrac{1}{2}", Fraction(-1, 2)), ("5 million", 5_000_000),
    ("The answer is 42.", 42), ("Answer: 42", 42), ("6 * 7 = 42", 42), ("x=5", 5),
    (r"so \boxed{42}", 42), (r"\boxed{\frac{1}{3}}", Fraction(1, 3)),
    ("48 / 2 = 24, and 48 + 24 = 72\n#### 72", 72), ("2 plus 2. The answer is 4 cups", 4),
]  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS, ids=[text for text, _ in NUMBERS])
def test_a_number_is_read_however_it_is_written(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "", "none", "12 or 13", "between 1 and 5", "1,5", "12,34", "1.2.3", "3-5", "3:30", "3/0",
        "1 000", "1/2/2024", "2\\frac{1}{2}", "H2O", "nan", "inf", "####", "-$-5", "9" * 5000,
        "the answer is 42 because 6 * 7", "the answer is", "\ud800",
    ],
)  # fmt: skip
def test_no_number_and_more_than_one_cannot_be_used(text):
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


def test_a_number_under_a_condition_is_not_said_but_one_that_follows_from_it_is():
    assert is_said("If so, the answer is 5")
    assert is_said("If so it must be 5")
    assert not is_said("It would be right if it were 5")

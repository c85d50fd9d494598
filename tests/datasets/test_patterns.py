"""Patterns in linear time: what ``re`` says, whatever the pattern and the text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.datasets.patterns import MAX_WORK, LinearPattern
from tests.work import steps_of

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "0", "{", r"\.", r"\x61", "[]a]", "\u00e9", "()"]
)
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "{0}"])


def bigger(pattern):
    return st.one_of(
        st.builds("(?:{}){}".format, pattern, REPEATS),
        st.lists(pattern, max_size=3).map("".join),
        st.lists(pattern, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
    )


@settings(max_examples=500, deadline=None)
@given(
    st.recursive(ATOMS, bigger, max_leaves=8),
    st.sampled_from(["", "(?i)", "^"]),
    st.sampled_from(["", "$"]),
    st.text("abA0{.\u00e9\n", max_size=6),
)
def test_a_linear_pattern_says_what_re_says(pattern, before, after, text):
    pattern = before + pattern + after
    linear = LinearPattern(pattern)
    assert linear.matches(text) == bool(re.fullmatch(pattern, text))
    try:
        assert re.fullmatch(pattern, linear.example())
    except ValueError:
        assert not any(linear.matches(one) for one in "ab0{.")


@pytest.mark.parametrize("bomb", ["(a+)+b", "(a|a)*b", "(a?){100}a{100}b", "((a*)*)*b"])
def test_patterns_that_kill_a_backtracking_matcher_take_linear_steps(bomb):
    pattern = LinearPattern(bomb)
    assert not pattern.matches("a" * 1000)
    once, four_times = (steps_of(pattern.matches, "a" * size) for size in (250, 1000))
    assert four_times <= 4.4 * once


@pytest.mark.parametrize("text", ["a," * 500_000, "".join(map(chr, range(32, 2_032))), "a," * 900])
def test_a_large_pattern_takes_bounded_work(text, monkeypatch):
    pattern, visits = LinearPattern("(?:.*,){0,140}x"), 0
    after = LinearPattern._after

    def counted(self, states, char):
        nonlocal visits
        visits += len(states)
        return after(self, states, char)

    monkeypatch.setattr(LinearPattern, "_after", counted)
    assert not pattern.matches(text)
    assert visits <= MAX_WORK


def test_a_text_that_repeats_itself_is_walked_once(monkeypatch):
    pattern, walked = LinearPattern("(?:.*,){0,140}x"), []
    after = LinearPattern._after
    monkeypatch.setattr(
        LinearPattern, "_after", lambda *given: walked.append(given) or after(*given)
    )
    assert pattern.matches("a," * 140 + "x")
    assert not pattern.matches("a," * 600)
    assert len(walked) < 600


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?=a)", "(?<!a)b", r"\ba", "a*+", "a^b", "(?x)a", "(", "[[a]", "a" * 1001,
     "(a{0,40}){0,40}", "(?:" * 51 + "a" + ")" * 51, "(?i:a)", r"\Aa"],
)  # fmt: skip
def test_a_pattern_that_cannot_be_walked_is_refused(pattern):
    with pytest.raises(ValueError, match=r"pattern|groups"):
        LinearPattern(pattern)

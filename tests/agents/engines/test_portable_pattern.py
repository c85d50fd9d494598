"""Patterns as grammar compilers like them."""

import re
import string

import pytest

from llm_gym_agents.engines.replies import portable_pattern


@pytest.mark.parametrize("text", ["go to #1.", "a \\ b", "\\", "\\\\ ", "~ & -", string.printable])
def test_it_matches_what_it_matched_and_nothing_more(text):
    pattern = portable_pattern(re.escape(text))
    assert re.fullmatch(pattern, text)
    assert not re.fullmatch(pattern, f"{text} ")
    assert not re.search(r"(?<!\\)(\\\\)*\\[ #&~\s]", pattern)


@pytest.mark.parametrize("pattern", [r"\d+\.\d+", r"[a-z]{2}", r"\\ ", r"(go|look)\b", r"\-"])
def test_everything_else_stays_as_it_is(pattern):
    assert portable_pattern(pattern) == pattern

"""Action formats: the move that each finds, in bounded work."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import get_format
from llm_gym.reading.formats import FORMATS, drop_thinking
from llm_gym.reading.markup import visible

CASES = [
    ("plain", "go north", "go north"),
    ("plain", "Let me think.\n\n  go north  \n\n", "go north"),
    ("plain", "<think>go south</think>\ngo north", "go north"),
    ("plain", "go south</think>go north", "go north"),
    ("plain", "go south\n<think>never closed", "go south"),
    ("plain", "<think>never closed", None),
    ("plain", " \n ", None),
    ("tag", "I say <action>go north</action>!", "go north"),
    ("tag", "<action>a</action><action>b</action>", "b"),
    ("tag", "<action>go north", None),
    ("tag", "go north</action>", None),
    ("tag", "<action> </action>", None),
    ("boxed", r"so \boxed{go north}.", "go north"),
    ("boxed", r"\boxed{a{b}c}", "a{b}c"),
    ("boxed", r"\boxed{first} then \boxed{open", "first"),
    ("boxed", r"\boxed{}", None),
    ("json", '{"action": "go north"}', "go north"),
    ("json", 'text {"action": "a", "meta": {"x": 1}} more', "a"),
    ("json", '{"action": "a"} {"other": 1}', "a"),
    ("json", '{"action": "say \\"hi\\" \\u00e9"}', 'say "hi" é'),
    ("json", '{"action": 3}', None),
    ("json", '{"action": "broken', None),
    ("react", "Thought: x\nAction: go north", "go north"),
    ("react", "action: a\nObservation: b\nACTION : c\n", "c"),
    ("react", "My action is north", None),
]


@pytest.mark.parametrize(("name", "text", "move"), CASES)
def test_each_format_finds_the_move(name, text, move):
    assert FORMATS[name].parse(drop_thinking(text)) == move


@given(move=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_each_format_reads_back_its_own_moves(move):
    move = move.strip()
    if not move or any(mark in move for mark in ("think>", "action>", "{", "}", "\n")):
        return
    for form in FORMATS.values():
        assert form.parse(drop_thinking(form.render(move))) == move, form.name


@given(moves=st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_the_pattern_matches_exactly_the_listed_moves(moves):
    for form in FORMATS.values():
        pattern = form.pattern(moves)
        assert all(re.fullmatch(pattern, form.render(move)) for move in moves), form.name
        assert not re.fullmatch(pattern, form.render("".join(moves) + "?")), form.name


def test_a_pattern_may_be_a_regex_and_an_unknown_format_is_named():
    assert re.fullmatch(get_format("tag").pattern("[0-9]+"), "<action>42</action>")
    assert not re.fullmatch(get_format("tag").pattern("[0-9]+"), "<action>x</action>")
    with pytest.raises(ConfigError, match="xml"):
        get_format("xml")


def test_deeply_nested_text_is_read_in_bounded_work():
    bombs = ['{"a":' * 100_000, r"\boxed{" * 100_000, "<think>" * 100_000, "Action:\n" * 100_000]
    for form in FORMATS.values():
        for bomb in bombs:
            form.parse(drop_thinking(bomb))  # would take minutes if any of them were quadratic
    assert get_format("json").parse('{"a":' * 100_000 + '{"action": "x"}') == "x"


@given(st.text(st.characters(categories=["L", "Nd"], include_characters=" "), min_size=1))
def test_words_are_a_plain_move_unchanged(words):
    # ``TextEnv.step`` relies on it and does not ask the parser.
    assert FORMATS["plain"].parse(visible(words)) == (words.strip() or None)

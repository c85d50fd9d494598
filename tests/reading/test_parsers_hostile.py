"""Any text is parsed as an answer, calls or a problem, without an exception, in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.reading.calls import MAX_CALLS, MAX_CHARS, ToolCall
from llm_gym.reading.parsers import PARSERS, Parsed, get_parser
from tests.work import ends_at_all, steps_of

CALL = '{"name": "f", "arguments": {"a": 1}}'
HOSTILE = {
    # what a model that has come apart writes: (opening, repeated, closing)
    "open braces": ("", "{", ""),
    "open braces with quotes": ("", '{"', ""),
    "nested objects": ("", '{"name":', ""),
    "nested lists": ('{"name": "f", "arguments": ', "[", ""),
    "nested objects in lists": ("", '[{"arguments":', ""),
    "an endless string": ('{"name": "f", "arguments": {"a": "', "x", ""),
    "strings that never end": ("", '{"name": "a', ""),
    "escapes": ('{"name": "', "\\", ""),
    "braces far apart": ("", "{" + " " * 50, ""),
    "lists far apart": ("", "[" + "\n" * 50, ""),
    "single quotes": ("", "{'name': 'f'}", ""),
    "tool_call tags": ("", "<tool_call>", ""),
    "tool_call tags and a string": ("", '<tool_call>{"name": "', ""),
    "closed tool_call tags": ("", "<tool_call></tool_call>", ""),
    "function tags": ("<tool_call>", "<function=f>", ""),
    "parameter tags": ("<tool_call><function=f>", "<parameter=a>", ""),
    "parameters": ("<tool_call><function=f>", "<parameter=a>1</parameter>", ""),
    "a long parameter name": ("<tool_call><function=f><parameter=", "a", ""),
    "marks": ("", "[TOOL_CALLS]", ""),
    "marks and names": ("", "[TOOL_CALLS]f", ""),
    "marks and lists": ("", "[TOOL_CALLS][{", ""),
    "a long name": ("[TOOL_CALLS]", "a", "{}"),
    "arguments without end": ("[TOOL_CALLS]", "f[ARGS]", "{}"),
    "python tags": ("", "<|python_tag|>", ""),
    "python tags and objects": ("<|python_tag|>", "{};", ""),
    "calls without end": ("", CALL + "\n", ""),
    "calls in tags without end": ("", f"<tool_call>{CALL}</tool_call>", ""),
    "a list without end": ("[TOOL_CALLS][", CALL + ",", "]"),
    "thoughts": ("", "Thought: hm\n", ""),
    "actions": ("", "Action: f\n", ""),
    "inputs": ("Action: f\n", 'Action Input: {"\n', ""),
    "observations": ("", "Observation: x\n", ""),
    "labels without text": ("", "Action:", ""),
    "stars": ("", "*", "Action: f"),
    "spaces before a label": ("", " ", "Action: f"),
    "blank lines": ("Action:", "\n", "f"),
    "brackets": ("Action: f", "[", ""),
    "fences": ("", "```json\n", ""),
    "think tags": ("", "<think>", ""),
    "closed think tags": ("", "</think>", ""),
    "digits": ('{"name": "f", "arguments": {"a": ', "9", "}}"),
    "digits and an exponent": ('{"name": "f", "arguments": {"a": 1e', "9", "}}"),
    "surrogates": ("<tool_call>", "\ud800", ""),
    "NUL": ("", "\x00", ""),
    "commas": ("[", ",", "]"),
    "semicolons": (CALL, ";", CALL),
    "tool_calls without calls": ("", '{"tool_calls": [', ""),
    "strings in strings": ('{"function": {"name": "f", "arguments": "', '{\\"a\\":', '"}}'),
}


def grown(name, size):
    opening, repeated, closing = HOSTILE[name]
    return opening + repeated * (size // len(repeated)) + closing


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("parser", PARSERS)
def test_a_degenerate_reply_is_parsed_without_an_exception(parser, name):
    for size in (0, 1, 7, 100, 5000):
        assert_sound(get_parser(parser).parse(grown(name, size)))


@pytest.mark.parametrize("parser", PARSERS)
def test_parsing_takes_linear_time(parser):
    read = get_parser(parser).parse
    for name in HOSTILE:
        small, large = (steps_of(read, grown(name, size)) for size in (5_000, 20_000))
        assert large <= 4.4 * small + 100, (name, small, large)


@pytest.mark.parametrize(
    "parser",
    [name if name == "auto" else pytest.param(name, marks=pytest.mark.slow) for name in PARSERS],
)
def test_the_longest_allowed_reply_is_parsed(parser):
    # A pattern that backtracks would take hours.
    for name in HOSTILE:
        with ends_at_all():
            assert_sound(get_parser(parser).parse(grown(name, MAX_CHARS - 200)))


@pytest.mark.parametrize("parser", PARSERS)
def test_a_longer_reply_is_refused(parser):
    assert str(MAX_CHARS) in get_parser(parser).parse("x" * (MAX_CHARS + 1)).problem


PIECES = st.sampled_from(
    ["{", "}", "[", "]", '"', "'", ":", ",", " ", "\n", "\\", "name", "arguments", "tool", "1",
     "null", "NaN", "<tool_call>", "</tool_call>", "<function=f>", "<parameter=a>", "</parameter>",
     "</function>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "Thought:", "Action:",
     "Action Input:", "Final Answer:", "Observation:", "```json", "```", "<think>", "</think>",
     '{"name": "f", "arguments": {}}', "tool_calls", "\ud800", "é"]
)  # fmt: skip


@given(st.sampled_from(PARSERS), st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_parsed_the_same_way_twice(parser, text):
    assert_sound(get_parser(parser).parse(text))
    assert get_parser(parser).parse(text) == get_parser(parser).parse(text)


def assert_sound(parsed):
    assert isinstance(parsed, Parsed)
    bare = parsed.answer is not None and bool(parsed.calls)
    outcomes = [bool(parsed.calls), parsed.answer is not None, bool(parsed.problem)]
    assert sum(outcomes) == 1 or (bare and len(parsed.calls) == 1 and not parsed.problem)
    assert len(parsed.calls) <= MAX_CALLS
    assert len(parsed.problem) < 600
    for call in parsed.calls:
        assert isinstance(call, ToolCall)
        assert call.name
        assert call.name == call.name.strip()
        assert isinstance(call.arguments, dict)


@pytest.mark.parametrize("parser", PARSERS)
def test_calls_inside_reasoning_are_ignored(parser):
    parser = get_parser(parser)
    reply = parser.render([ToolCall("rm", {"path": "/"})])
    assert parser.parse(f"<think>{reply}</think>no").calls == ()
    assert parser.parse(f"{reply}</think>no").calls == ()
    assert parser.parse(f"<think>{reply}").calls == ()

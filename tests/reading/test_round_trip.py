"""What a format's own renderer writes is read back exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import PARSERS, Parsed, get_parser

TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["</tool_call>", "<tool_call>{", "[TOOL_CALLS]", "<|python_tag|>", "Action: x",
         "\nAction: x", "Observation: y", "```", "<think>", "</think>", "\think>", '{"a": 1}', "; ",
         "\\", '"', "[ARGS]", "\ud800", "\u2028", "</parameter>"]
    ),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
CALLS = st.builds(
    ToolCall,
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.dictionaries(TEXTS, VALUES, max_size=3),
)
WORDS = st.from_regex(r"|[A-Za-z0-9.,!?]([A-Za-z0-9 .,!?\n]{0,60}[A-Za-z0-9.,!?])?", fullmatch=True)


@settings(max_examples=25)
@pytest.mark.parametrize("name", [name for name in PARSERS if name != "react"])
@given(calls=st.lists(CALLS, min_size=1, max_size=4), thought=WORDS)
def test_calls_are_read_back(name, calls, thought):
    parser = get_parser(name)
    text = parser.render(calls, thought)
    assert parser.parse(text) == Parsed(tuple(calls), None, thought, "")


@settings(max_examples=25)
@given(call=CALLS, thought=WORDS)
def test_a_react_call_is_read_back(call, thought):
    parser = get_parser("react")
    assert parser.parse(parser.render([call], thought)) == Parsed((call,), None, thought, "")


@settings(max_examples=25)
@given(calls=st.lists(CALLS, min_size=1, max_size=4), thought=WORDS)
@pytest.mark.parametrize("style", ["openai", "hermes", "qwen", "llama3", "mistral"])
def test_auto_recognises_every_style(style, calls, thought):
    text = get_parser(style).render(calls, thought)
    assert get_parser("auto").parse(text).calls == tuple(calls)


@settings(max_examples=25)
@given(name=st.sampled_from(PARSERS), answer=WORDS.filter(bool))
def test_an_answer_is_read_back(name, answer):
    parser = get_parser(name)
    assert parser.parse(parser.render_answer(answer)) == Parsed(answer=answer)


@settings(max_examples=25)
@given(name=st.sampled_from(PARSERS), answer=TEXTS)
def test_a_rendered_answer_is_read_back_or_refused(name, answer):
    parser = get_parser(name)
    try:
        text = parser.render_answer(answer)
    except ConfigError:
        return
    assert parser.parse(text) == Parsed(answer=answer)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "call",
    [
        ToolCall("f", {"a": float("nan")}), ToolCall("f", {"a": (1, 2)}), ToolCall("f", {1: 2}),
        ToolCall(" f "), ToolCall(""),
    ],
    ids=["NaN", "a tuple", "a key that is no string", "spaces around the name", "no name"],
)  # fmt: skip
def test_a_call_that_cannot_be_read_back_is_refused(name, call):
    with pytest.raises(ConfigError):
        get_parser(name).render([call])


@pytest.mark.parametrize(
    ("name", "thought"),
    [
        ("hermes", "<tool_call>"), ("mistral", "[TOOL_CALLS]"), ("llama3", "<|python_tag|>"),
        ("json", '{"tool": "g", "args": {}}'), ("react", "hm\nAction: g"),
        ("react", "so\nFinal Answer: g"), ("hermes", "<think>"), ("hermes", " padded "),
    ],
)  # fmt: skip
def test_a_thought_that_would_be_read_as_something_else_is_refused(name, thought):
    with pytest.raises(ConfigError, match="read back"):
        get_parser(name).render([ToolCall("f", {"a": 1})], thought)


def test_react_has_one_action_per_reply():
    with pytest.raises(ConfigError, match="exactly one action"):
        get_parser("react").render([ToolCall("f"), ToolCall("g")])

"""Calls that were only thought of, or made in a turn that the model imagined, are not made."""

import pytest

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.markup import visible
from llm_gym.reading.parsers import PARSERS, get_parser

A = '{"name": "add", "arguments": {"a": 1}}'
B = A.replace("1", "2")


def tag(call):
    return f"<tool_call>\n{call}\n</tool_call>"


@pytest.mark.parametrize("parser", ["hermes", "qwen", "auto"])
@pytest.mark.parametrize(
    "reply",
    [
        f"<think>{tag(B)}</think>{tag(A)}",
        f"<thinking>{tag(B)}</thinking>{tag(A)}",
        f"[THINK]{tag(B)}[/THINK]{tag(A)}",
        f"<reasoning>Or {tag(B)}?</reasoning>\n{tag(A)}",
        f"{tag(A)}<|im_end|>\n<|im_start|>user\nok<|im_end|>\n{tag(B)}",
        f"{tag(A)}\n<tool_response>\n1\n</tool_response>\n{tag(B)}",
        f"{tag(A)}<|eot_id|>{tag(B)}",
    ],
)
def test_only_the_calls_of_the_models_own_turn_are_made(parser, reply):
    calls = get_parser(parser).parse(reply).calls
    assert [call.arguments for call in calls] == [{"a": 1}]


def test_two_calls_of_one_turn_are_both_made():
    assert len(get_parser("hermes").parse(f"{tag(A)}\n{tag(B)}").calls) == 2


@pytest.mark.parametrize("reply", [f"```json\n{A}\n```", f"Sure:\n```\n{A}\n```\nDone."])
def test_a_call_in_a_fence_is_one_where_any_style_is(reply):
    assert get_parser("auto").parse(reply).calls[0].arguments == {"a": 1}
    assert not get_parser("auto").parse("```\n{x}\n```").calls


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "query",
    ["the <thought> tag", "<thinking>a</thinking> b", "</thinking>", "[THINK] a", "a <|im_end|> b",
     "<|channel|>final", "a <tool_response>", '"<thought>', "<think> \\"],
)  # fmt: skip
def test_a_mark_that_an_argument_mentions_is_no_mark(name, query):
    parser, call = get_parser(name), ToolCall("search", {"query": query, "more": [query]})
    assert parser.parse(parser.render([call])).calls == (call,)


def test_code_that_looks_up_a_thought_is_no_thought():
    code = "best = scores[thought]\nprint(best, seen[think], a < thinking > b)"
    assert visible(code) == code

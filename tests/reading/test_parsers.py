"""What models write, in each format."""

import json

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import MAX_CALLS, ToolCall
from llm_gym.reading.parsers import PARSERS, FunctionCallingParser, get_parser
from llm_gym.tools import ToolDefinition

ADD = ToolCall("add", {"a": 1, "b": 2})
ARGUMENTS = '{"a": 1, "b": 2}'


def read(parser, text):
    return get_parser(parser).parse(text)


# --- JSON ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "add", "args": {"a": 1, "b": 2}}',
        '{"name": "add", "arguments": {"a": 1, "b": 2}}',
        '{"action": "add", "action_input": {"a": 1, "b": 2}}',
        '{"function": "add", "parameters": {"a": 1, "b": 2}}',
        '{"tool_name": "add", "params": {"a": 1, "b": 2}}',
        '{"thought": "easy", "tool": "add", "args": {"a": 1, "b": 2}}',
        '```json\n{"tool": "add", "args": {"a": 1, "b": 2}}\n```',
        '```\n{"tool": "add", "args": {"a": 1, "b": 2}}\n```',
        '```json\n{"tool": "add", "args": {"a": 1, "b": 2}}',
        'The set {1, 2} and {x: y} are no calls. {"tool": "add", "args": {"a": 1, "b": 2}} Done.',
        '{\n  "tool" : "add",\n  "args" : {\n    "a": 1,\n    "b": 2\n  }\n}',
        '[{"tool": "add", "args": {"a": 1, "b": 2}}]',
        '{"result": 3} no: {"tool": "add", "args": "{\\"a\\": 1, \\"b\\": 2}"}',
        '<think>{"tool": "sub", "args": {}}</think>{"tool": "add", "args": {"a": 1, "b": 2}}',
    ],
)
def test_json_calls_are_found(text):
    assert read("json", text).calls == (ADD,)


def test_json_calls_without_arguments_are_calls_and_moves_are_not():
    assert read("json", '{"tool": "list_files"}').calls == (ToolCall("list_files"),)
    assert read("json", '{"name": "list_files", "arguments": null}').calls[0].arguments == {}
    assert read("json", '{"action": "go north"}').answer == '{"action": "go north"}'
    assert read("json", '{"name": "Ada", "age": 36}').calls == ()


def test_several_json_calls_are_read_in_order():
    text = 'First {"tool": "f", "args": {}} then [{"tool": "g"}, {"tool": "h", "args": {}}]'
    found = read("json", text)
    assert [call.name for call in found.calls] == ["f", "g", "h"]
    assert found.thought == "First"


def test_a_json_answer_is_its_text():
    assert read("json", 'So:\n```json\n{"answer": "42"}\n```').answer == "42"
    assert read("json", "So it is 42.").answer == "So it is 42."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{'tool': 'add', 'args': {'a': 1}}", "JSON needs double quotes, at line 1, column 2"),
        ('{"tool": "add", "args": {"a": 1', "cut off"),
        ('{"tool": "add", "args": {"a": "x', "cut off"),
        ('{"tool": "add",\n "args": {"a" 1}}', "Expecting ':' delimiter, at line 2, column 15"),
        ('{"tool": "add", "args": {"a": NaN}}', "NaN is not JSON"),
        ('{"tool": "add", "args": {"a": 1e999}}', "the number 1e999 is too large"),
        ('{"tool": "add", "args": [1, 2]}', "args must be a JSON object"),
        ('{"tool": "add", "args": "{oops}"}', "args holds broken JSON"),
        ('{"tool": "", "args": {}}', "the name is empty"),
        ('{"arguments": {"a": 1}}', "the name is missing"),
        ('{"tool": "f", "args": {}}' * (MAX_CALLS + 1), "32 calls"),
        ('{"tool": "f", "args": {}}' * (MAX_CALLS - 1) + "{'tool': 'g'", "double quotes"),
        ('[' + '{"tool": "f", "args": {}},' * MAX_CALLS + '{"tool": "f", "args": {}}]', "32 calls"),
    ],
)  # fmt: skip
def test_a_broken_json_call_is_explained(text, why):
    found = read("json", text)
    assert why in found.problem
    assert '{"tool": "name", "args": {...}}' in found.problem
    assert found.calls == ()


# --- ReAct --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"Thought: I add.\nAction: add\nAction Input: {ARGUMENTS}",
        f"Thought: I add.\nAction: add\nAction Input: {ARGUMENTS}\nObservation: 4\nFinal Answer: 4",
        f"thought: I add.\naction: add\naction input: {ARGUMENTS}",
        f"**Thought:** I add.\n**Action:** add\n**Action Input:** {ARGUMENTS}",
        f"I add.\nAction: `add`\nAction Input:\n```json\n{ARGUMENTS}\n```",
        f"Thought: I add.\n\nAction:   add  \n\nAction Input:\n{ARGUMENTS}\nThought: and then",
        'Thought: I add.\nAction: add\nAction Input: {\n  "a": 1,\n  "b": 2\n}',
    ],
)
def test_react_actions_are_found(text):
    found = read("react", text)
    assert found.calls == (ADD,)
    assert found.thought == "I add."
    assert found.answer is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Paris in spring", "Paris in spring"), ('"Paris in spring"', "Paris in spring"),
        ('"Paris" in spring', '"Paris" in spring'), ("42", "42"), ("[1, 2]", "[1, 2]"),
        ("[1, 2", "[1, 2"), ("print(1)\nprint(2)", "print(1)\nprint(2)"),
        ("```python\nprint(1)\n```", "print(1)"),
    ],
)  # fmt: skip
def test_react_input_may_be_text(given, text):
    assert read("react", f"Action: f\nAction Input: {given}").calls == (ToolCall("f", text=text),)


def test_a_bare_react_action_is_a_call_or_a_move():
    assert read("react", "Action: go north")[:2] == ((ToolCall("go north"),), "go north")
    found = read("react", "Action: search[Rome [Italy]]")
    assert found[:2] == ((ToolCall("search", text="Rome [Italy]"),), "search[Rome [Italy]]")
    assert read("react", "Action: f\nAction Input:").answer is None


def test_react_answers_are_read_to_the_end():
    found = read("react", "Thought: done.\nFinal Answer: first\nsecond\nObservation: made up")
    assert (found.answer, found.thought) == ("first\nsecond", "done.")
    assert read("react", "Final Answer: 1\nAction: f").calls == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "neither an action nor an answer") for text in (
            "", "hello", "Thought: hm", "Final Answer:", "Observation: x\nAction: f",
        )),
        ('Action: f\nAction Input: {"a": 1', "cut off"),
        ("Action:\nAction Input: {}", "the action is empty"),
    ],
)  # fmt: skip
def test_a_broken_react_reply_is_explained(text, why):
    assert why in read("react", text).problem


# --- function calling ---------------------------------------------------------------------

FUNCTION = {"type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}
STYLES = ["hermes", "qwen", "llama3", "mistral", "openai", "auto"]
WRITTEN = {
    # the forms that each family's own template or documentation shows
    "hermes": [
        f'<tool_call>\n{{"name": "add", "arguments": {ARGUMENTS}}}\n</tool_call>',
        f'<tool_call>{{"arguments": {ARGUMENTS}, "name": "add"}}</tool_call><|im_end|>',
        f'I add.\n<tool_call>\n{{"name": "add", "arguments": {ARGUMENTS}}}',
    ],
    "qwen": [
        f'<think>hm</think><tool_call>\n{{"name": "add", "arguments": {ARGUMENTS}}}\n</tool_call>',
        '<tool_call>\n<function=add>{"a": 1, "b": 2}</function>\n</tool_call>',
    ],
    "llama3": [
        f'{{"name": "add", "parameters": {ARGUMENTS}}}',
        f'<|python_tag|>{{"name": "add", "parameters": {ARGUMENTS}}}<|eom_id|>',
        f'{{"type": "function", "name": "add", "parameters": {ARGUMENTS}}}',
        f"<function=add>{ARGUMENTS}</function>",
    ],
    "mistral": [
        f'[TOOL_CALLS] [{{"name": "add", "arguments": {ARGUMENTS}}}]',
        f'[TOOL_CALLS][{{"name": "add", "arguments": {ARGUMENTS}, "id": "D681PevKs"}}]</s>',
        f"[TOOL_CALLS]add{ARGUMENTS}",
        f"[TOOL_CALLS]add[ARGS]{ARGUMENTS}",
        f"[TOOL_CALLS]add[CALL_ID]D681PevKs[ARGS]{ARGUMENTS}",
        f'[{{"name": "add", "arguments": {ARGUMENTS}}}]',
    ],
    "openai": [
        json.dumps({"role": "assistant", "content": None, "tool_calls": [{"id": "1", **FUNCTION}]}),
        json.dumps([FUNCTION]),
        json.dumps(FUNCTION),
        json.dumps({"content": "", "function_call": {"name": "add", "arguments": ARGUMENTS}}),
    ],
}
CASES = [(style, text) for style, texts in WRITTEN.items() for text in texts]


@pytest.mark.parametrize(("style", "text"), CASES)
def test_calls_of_every_model_family_are_read(style, text):
    assert read(style, text).calls == (ADD,)
    assert read("auto", text).calls == (ADD,)


def test_values_in_qwen_xml_are_text():
    text = (
        "<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n"
        "<parameter=code>\n\nif a < b:\n    pass\n</parameter>\n</function>\n</tool_call>"
    )
    arguments = {"path": "a.py", "code": "\nif a < b:\n    pass"}
    assert read("qwen", text).calls == (ToolCall("write", arguments),)


@pytest.mark.parametrize("style", STYLES)
def test_several_calls_are_read_in_order(style):
    parser = get_parser(style)
    calls = (ADD, ToolCall("sub", {"a": 3}), ToolCall("add", {}))
    assert parser.parse(parser.render(calls)).calls == calls
    assert "more than 32 calls" in parser.parse(parser.write((ADD,) * 33, "")).problem


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", ["It is 3.", "", "{x", "[1, 2]", '{"a": 1}', "[reveal 1 2]"])
def test_a_reply_without_a_call_is_an_answer(style, text):
    assert read(style, text).answer == text


def test_the_content_of_a_message_is_its_answer_or_its_thought():
    assert read("openai", '{"role": "assistant", "content": "3"}').answer == "3"
    text = get_parser("openai").render([ADD], "I add.")
    assert read("openai", text).thought == "I add."


@pytest.mark.parametrize(
    ("style", "text", "why"),
    [
        ("hermes", '<tool_call>{"name": "add", "arguments": {"a": 1}', "cut off"),
        ("hermes", "<tool_call>add(1, 2)</tool_call>", "Expecting value"),
        ("hermes", "<tool_call>[1]</tool_call>", "needs a name and arguments"),
        ("hermes", '<tool_call>{"name": "add", "x": 1}</tool_call>', "needs a name and arguments"),
        ("qwen", "<tool_call><function=add><parameter=a>1", "the parameter a is not closed"),
        ("qwen", "<tool_call><function=add>", "the function add is not closed"),
        ("qwen", "<tool_call><function= add>", "the name of the function is broken"),
        ("llama3", '{"name": "add", "parameters": {"a": }}', "Expecting value"),
        ("llama3", "<|python_tag|>print(1)", "Expecting value"),
        ("mistral", '[TOOL_CALLS] [{"name": "add"', "cut off"),
        ("mistral", "[TOOL_CALLS] add", "Expecting value"),
        ("mistral", '[TOOL_CALLS]add{"a": 1', "cut off"),
        ("mistral", "[TOOL_CALLS] [[]]", "needs a name and arguments"),
        ("mistral", "[TOOL_CALLS] []", "needs a name and arguments"),
        ("openai", '{"tool_calls": [{"function": {"name": "add", "argum', "cut off"),
        (
            "openai",
            '{"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}',
            "broken JSON",
        ),
        ("openai", '{"tool_calls": [3]}', "needs a name and arguments"),
    ],
)
def test_a_broken_call_is_explained_with_the_right_form(style, text, why):
    problem = read(style, text).problem
    assert why in problem
    assert "Write it as" in problem


def test_one_broken_call_discards_all_of_them():
    good = f'<tool_call>{{"name": "add", "arguments": {ARGUMENTS}}}</tool_call>'
    found = read("hermes", f"{good}<tool_call>oops</tool_call>{good}")
    assert found.calls == ()
    assert found.problem


# --- all of them --------------------------------------------------------------------------

LOOK = ToolDefinition(
    "look_up",
    "Look something up.",
    {
        "type": "object",
        "properties": {
            "words": {"type": "string"},
            "count": {"type": "integer", "default": 3},
            "order": {"enum": ["new", "old"]},
            "exact": {"type": "boolean"},
        },
        "required": ["words"],
    },
)


@pytest.mark.parametrize("name", PARSERS)
def test_the_instructions_hold_an_example_that_the_parser_reads(name):
    parser = get_parser(name)
    text = parser.instructions([LOOK])
    assert '"name": "look_up"' in text
    assert "Look something up." in text
    expected = ToolCall("look_up", {"words": "...", "count": 3, "order": "new", "exact": True})
    thought = "why this helps" if name == "react" else ""
    assert parser.render([expected], thought) in text
    assert parser.instructions([]) == ""


@pytest.mark.parametrize("name", PARSERS)
def test_a_result_is_shown_whole(name):
    shown = get_parser(name).render_result(ADD, "{3} \\1 {}")
    assert "{3} \\1 {}" in shown


def test_parsers_are_found_by_name():
    for name in PARSERS:
        assert get_parser(name).name == name
        assert get_parser(get_parser(name)).name == name
    with pytest.raises(ConfigError, match="parser"):
        get_parser("reakt")
    with pytest.raises(ConfigError, match="style"):
        FunctionCallingParser("gpt")

"""Function calling: reads the call formats of all model families, and writes one of them."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import (
    MAX_CALLS,
    ActionParser,
    BrokenCall,
    Parsed,
    ToolCall,
    dump,
    looks_like_call,
    read_calls,
    read_json,
    skip,
    write_call,
)

_FUNCTION = re.compile(r"<function=([A-Za-z0-9_.-]{1,64})>\s*")
_PARAMETER = re.compile(r"<parameter=([^>\n]{1,200})>")
_CLOSE_FUNCTION, _CLOSE_PARAMETER = "</function>", "</parameter>"


def _read_function_tag(text: str, start: int) -> tuple[dict[str, Any], int]:
    r"""Return the call in the tag at ``start``, and where it ends.

    Values in ``<parameter=...>`` tags are text; the registry converts them to the types of the
    parameters.

    >>> _read_function_tag("<function=add>\n<parameter=a>\n1\n</parameter>\n</function>", 0)
    ({'name': 'add', 'arguments': {'a': '1'}}, 55)
    >>> _read_function_tag('<function=add>{"a": 1}</function>', 0)
    ({'name': 'add', 'arguments': {'a': 1}}, 33)
    """
    name = _FUNCTION.match(text, start)
    if name is None:
        raise BrokenCall("the name of the function is broken")
    at = name.end()
    arguments: dict[str, Any] = {}
    if text.startswith("{", at):
        arguments, at = read_json(text, at)
    while opening := _PARAMETER.match(text, at):
        end = text.find(_CLOSE_PARAMETER, opening.end())
        if end < 0:
            raise BrokenCall(f"the parameter {opening[1]} is not closed")
        # Exactly one line break on each side belongs to the format; the others to the value.
        value = text[opening.end() : end].removeprefix("\n").removesuffix("\n")
        arguments[opening[1]] = value
        at = skip(text, end + len(_CLOSE_PARAMETER))
    at = skip(text, at)
    if not text.startswith(_CLOSE_FUNCTION, at):
        raise BrokenCall(f"the function {name[1]} is not closed")
    return {"name": name[1], "arguments": arguments}, at + len(_CLOSE_FUNCTION)


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TAG, _LIST = "<|python_tag|>", "[TOOL_CALLS]"
_MARK = re.compile("|".join(map(re.escape, (_OPEN, _LIST, _TAG))))
_BARE = ("{", "[{", "<function=")
_BETWEEN = re.compile(r"[\s;,]*")
_NAMED = re.compile(
    r"([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*(?=\{)"
)


def read_functions(text: str) -> Parsed:
    r"""Read function calls of every family of models.

    They follow a mark (JSON or XML in ``<tool_call>`` tags of Hermes and Qwen, a list or
    ``name{...}`` after the ``[TOOL_CALLS]`` of Mistral, JSON after the ``<|python_tag|>`` of
    Llama), or they are the whole reply: JSON as Llama writes it, or a message of the chat API.

    >>> read_functions('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    >>> read_functions('Well: [TOOL_CALLS]add{"a": 1}').calls[0].name
    'add'
    >>> read_functions('Sure:\n```json\n{"name": "add"}\n```').calls[0].name
    'add'
    """
    if text.lstrip().startswith(_BARE):
        return _read_bare(text)
    if mark := _MARK.search(text):
        calls = _all_calls(_marked_values(text, mark[0]))
        return Parsed(calls, thought=text[: mark.start()].strip())
    _, brace, fenced = text.partition("```")[2].partition("```")[0].partition("{")
    with suppress(BrokenCall):  # code may look like a call
        if brace and (found := _read_bare(brace + fenced)).calls:
            return found
    return Parsed(answer=text)


def _marked_values(text: str, mark: str) -> list[Any]:
    values: list[Any] = []
    at = text.find(mark)
    while at >= 0 and len(values) <= MAX_CALLS:
        row, end = _read_row(text, skip(text, at + len(mark)))
        values += row
        at = text.find(mark, end)
    return values


def _read_row(text: str, at: int) -> tuple[list[Any], int]:
    """Return the consecutive values at ``at``, at least one, and where they end."""
    values: list[Any] = []
    while len(values) <= MAX_CALLS:
        value, end = _read_value(text, at)
        values.append(value)
        at = skip(text, end, _BETWEEN)
        if not text.startswith(_BARE, at):
            break
    return values, end


def _read_value(text: str, at: int) -> tuple[Any, int]:
    if text.startswith("<function=", at):
        return _read_function_tag(text, at)
    if name := _NAMED.match(text, at):
        value, at = read_json(text, name.end())
        return {"name": name[1], "arguments": value}, at
    return read_json(text, at)


def _read_bare(text: str) -> Parsed:
    start = skip(text, 0)
    try:
        values, _ = _read_row(text, start)
    except BrokenCall:
        if looks_like_call(text, start):
            raise
        return Parsed(answer=text)
    message = values[0] if len(values) == 1 and isinstance(values[0], dict) else {}
    raw = message.get("content")
    content = raw if isinstance(raw, str) else None
    if listed := message.get("tool_calls") or message.get("function_call"):
        return Parsed(_all_calls([listed]), thought=content or "")
    calls = () if content is not None else read_calls(values)
    return Parsed(calls) if calls else Parsed(answer=text if content is None else content)


def _all_calls(values: list[Any]) -> tuple[ToolCall, ...]:
    """Return ``values`` as calls; each of them must be a call."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    calls = read_calls(flat)
    if not calls or len(calls) < len(flat):
        raise BrokenCall("it needs a name and arguments")
    return calls


def _write_hermes(calls: tuple[ToolCall, ...], thought: str) -> str:
    texts = [f"{_OPEN}\n{write_call(call)}\n{_CLOSE}" for call in calls]
    return "\n".join(filter(None, (thought, *texts)))


def _write_llama(calls: tuple[ToolCall, ...], thought: str) -> str:
    text = "; ".join(write_call(call, arguments="parameters") for call in calls)
    return f"{thought}\n{_TAG}{text}" if thought else text


def _write_mistral(calls: tuple[ToolCall, ...], thought: str) -> str:
    listed = f"{_LIST} [{', '.join(write_call(call) for call in calls)}]"
    return f"{thought}\n{listed}" if thought else listed


def _write_openai(calls: tuple[ToolCall, ...], thought: str) -> str:
    listed = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": dump(call.arguments)},
        }
        for at, call in enumerate(calls)
    ]
    return dump({"role": "assistant", "content": thought or None, "tool_calls": listed})


class Style(NamedTuple):
    """One way to write function calls."""

    write: Callable[[tuple[ToolCall, ...], str], str]
    how: str
    result: str = "{}"
    """How a result is shown, with ``{}`` where it goes."""


_HERMES = Style(
    _write_hermes,
    f'Write it as {_OPEN}{{"name": "...", "arguments": {{...}}}}{_CLOSE}.',
    "<tool_response>\n{}\n</tool_response>",
)
STYLES = {
    "auto": _HERMES,
    "openai": Style(
        _write_openai,
        'Write it as {"tool_calls": [{"type": "function", "function": {"name": "...", "arguments": '
        '"{...}"}}]}.',
    ),
    "hermes": _HERMES,
    "qwen": _HERMES,
    "llama3": Style(
        _write_llama, 'Write it as {"name": "...", "parameters": {...}} and nothing else.'
    ),
    "mistral": Style(
        _write_mistral, f'Write it as {_LIST}[{{"name": "...", "arguments": {{...}}}}].'
    ),
}


class FunctionCallingParser(ActionParser):
    """Reads function calls of any model family, and writes those of one.

    Args:
        style: ``openai`` (a message of the chat API as JSON), ``hermes`` or ``qwen`` (JSON in
            ``<tool_call>`` tags), ``llama3`` (JSON with ``parameters``), ``mistral`` (a list
            after ``[TOOL_CALLS]``), or ``auto``, which writes as Hermes.

    >>> parser = FunctionCallingParser("hermes")
    >>> print(parser.render([ToolCall("add", {"a": 1})], thought="I add."))
    I add.
    <tool_call>
    {"name": "add", "arguments": {"a": 1}}
    </tool_call>
    >>> parser.parse("It is 2.").answer
    'It is 2.'
    """

    def __init__(self, style: str = "auto") -> None:
        if style not in STYLES:
            raise ConfigError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        self.name, self.style, self.how = style, style, STYLES[style].how

    def read(self, text: str) -> Parsed:
        return read_functions(text)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        return STYLES[self.style].write(calls, thought)

    def render_result(self, call: ToolCall, result: str) -> str:
        return STYLES[self.style].result.replace("{}", result)

    def tell(self, call: ToolCall) -> str:
        return (
            f"in this form:\n{self.write((call,), '')}\n"
            "The result comes in the next message. A reply without a call is your answer."
        )

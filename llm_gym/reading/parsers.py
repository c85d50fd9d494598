"""Parsers of calls, one for each format that models write: JSON, ReAct and function calling.

A parser is pure: the same text gives the same ``Parsed``, whatever came before. It never raises
for what a model wrote, reads at most ``MAX_CHARS`` characters, and takes time linear in them. What
its own ``render`` writes, it reads back exactly. One broken call makes the whole reply a problem:
running half of what a model asked for helps nobody.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import (
    MAX_CALLS,
    BrokenCall,
    ToolCall,
    ToolDefinition,
    dump,
    find_json,
    list_tools,
    looks_like_call,
    read_calls,
    read_function_tag,
    read_json,
    skip,
    write_call,
)
from llm_gym.reading.markup import own_turn

__all__ = [
    "PARSERS",
    "ActionParser",
    "FunctionCallingParser",
    "JSONActionParser",
    "Parsed",
    "ReActActionParser",
    "ToolCall",
    "get_parser",
]

MAX_CHARS = 1_000_000


class Parsed(NamedTuple):
    """What a reply says: calls, an answer or a problem.

    One of the three is set, with one exception: a bare ReAct action (``Action: north``) is both,
    a call if there is a tool of that name and otherwise a move.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    """The part of a reply without calls that is meant for the environment or the user."""
    thought: str = ""
    problem: str = ""
    """Why nothing can be done with the reply, for the model."""


class ActionParser(ABC):
    """Reads the calls in a model's reply, and writes them."""

    name: str
    """What ``get_parser`` calls it."""
    how: str = ""
    """The right form of a call, for a model that wrote a broken one."""

    def parse(self, text: str) -> Parsed:
        """Return what ``text`` says in its own turn. Reasoning is not looked at."""
        if len(text) > MAX_CHARS:
            return Parsed(problem=f"Your reply is longer than {MAX_CHARS} characters.")
        try:
            return self.read(own_turn(text))
        except BrokenCall as why:
            return Parsed(problem=f"I could not read your tool call: {why}. {self.how}")

    def render(self, calls: Sequence[ToolCall], thought: str = "") -> str:
        """Return a reply with ``calls``, which ``parse`` reads back exactly.

        Raises ``ConfigError`` for what the format cannot say, such as a thought that reads as a
        call.
        """
        text = self.write(tuple(calls), thought)
        return self._read_back(text, Parsed(tuple(calls), None, thought))

    def render_answer(self, answer: str, thought: str = "") -> str:
        """Return a reply without a call, which ``parse`` reads back exactly."""
        return self._read_back(self.write_answer(answer, thought), Parsed((), answer, thought))

    def _read_back(self, text: str, meant: Parsed) -> str:
        if self.parse(text) != meant:
            raise ConfigError(
                f"the {self.name} format cannot say this so that it is read back: {meant!r:.400}"
            )
        return text

    def render_result(self, call: ToolCall, result: str) -> str:
        """Return the result of ``call`` as the model reads it."""
        return result

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call ``tools``, for the rules; empty where there are none."""
        if not tools:
            return ""
        how = self.tell(tools[0].example())
        return f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply {how}"

    # --- what a format defines -----------------------------------------------------------

    @abstractmethod
    def read(self, text: str) -> Parsed:
        """Return what ``text`` says, or raise ``BrokenCall``.

        The length of ``text`` is bounded and its reasoning dropped.
        """

    @abstractmethod
    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        """Return a reply with ``calls``."""

    def write_answer(self, answer: str, thought: str) -> str:
        """Return a reply without a call."""
        return f"{thought}\n{answer}" if thought else answer

    @abstractmethod
    def tell(self, call: ToolCall) -> str:
        """Return how to reply with a call such as ``call``, and how to answer."""


class JSONActionParser(ActionParser):
    r"""Reads ``{"tool": ..., "args": {...}}``; several calls are several objects or a list.

    The usual other names for the two keys are read as well. ``{"answer": ...}`` is an answer, and
    a reply without either is one as a whole.

    >>> parser = JSONActionParser()
    >>> parser.parse('Let me see.\n```json\n{"tool": "add", "args": {"a": 1}}\n```').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    >>> parser.parse("{'tool': 'add'}").problem[:73]
    'I could not read your tool call: JSON needs double quotes, at line 1, col'
    >>> parser.parse("It is 2.").answer
    'It is 2.'
    """

    name = "json"
    how = 'Write it as {"tool": "name", "args": {...}}.'

    def read(self, text: str) -> Parsed:
        found = find_json(text)
        if calls := read_calls(value for _, value in found):
            return Parsed(calls, thought=_before(text, found[0][0]))
        for start, value in found:
            if isinstance(value, dict) and isinstance(value.get("answer"), str):
                return Parsed(answer=value["answer"], thought=_before(text, start))
        return Parsed(answer=text)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        return _under(thought, *(write_call(call, "tool", "args") for call in calls))

    def write_answer(self, answer: str, thought: str) -> str:
        return _under(thought, dump({"answer": answer}))

    def tell(self, call: ToolCall) -> str:
        return (
            f"with a JSON object: {self.write((call,), '')}\n"
            'The result comes in the next message. To answer: {"answer": "..."}'
        )


def _before(text: str, start: int) -> str:
    """Return the words before ``start``, without the fence that a value there stands in."""
    words = text[:start].rstrip()
    rest, _, last = words.rpartition("\n")
    return rest.strip() if last.startswith("```") and len(last) < 20 else words.strip()


def _under(thought: str, *lines: str) -> str:
    return "\n".join([thought, *lines] if thought else lines)


# --- ReAct ---------------------------------------------------------------------------------------

_LABEL = re.compile(
    r"^[ \t]*\**(thought|action input|action|final answer|observation)\**[ \t]*:\**",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKETS = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,63})\[(.*)\]", re.DOTALL)
_NOTHING = (
    'I found neither an action nor an answer in your reply. Write "Action: name" and "Action '
    'Input: {...}" to call a tool, or "Final Answer: ..." to answer.'
)


class ReActActionParser(ActionParser):
    r"""Reads the first action of a reply; what the model made up after it is not looked at.

    The input is a JSON object, or text for a tool with one parameter (also in the form
    ``Action: search[Rome]``). A reply that has a final answer before any action is an answer.

    >>> parser = ReActActionParser()
    >>> reply = 'Thought: I add.\nAction: add\nAction Input: {"a": 1}\nObservation: 2'
    >>> parser.parse(reply).calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    >>> parser.parse("Thought: done.\nFinal Answer: 2").answer
    '2'
    """

    name = "react"
    how = (
        'Write "Action: name" and then "Action Input: {...}" with a JSON object, each on its own '
        "line."
    )

    def read(self, text: str) -> Parsed:
        labels = list(_LABEL.finditer(text))
        starts = [label.start() for label in labels] + [len(text)]
        parts = [
            (label[1].lower(), text[label.end() : end].strip())
            for label, end in zip(labels, starts[1:], strict=True)
        ]
        thoughts = [text[: starts[0]].strip()]
        for at, (kind, body) in enumerate(parts):
            if kind == "thought":
                thoughts.append(body)
                continue
            thought = "\n".join(filter(None, thoughts))
            if kind == "action":
                has_input = parts[at + 1 : at + 2] and parts[at + 1][0] == "action input"
                return _action(body, parts[at + 1][1] if has_input else None, thought)
            if kind == "final answer":
                seen = (one for one in range(at, len(parts)) if parts[one][0] == "observation")
                end = starts[next(seen, len(parts))]
                if answer := text[labels[at].end() : end].strip():
                    return Parsed(answer=answer, thought=thought)
            if kind != "action input":
                break
        return Parsed(problem=_NOTHING)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        if len(calls) != 1:
            raise ConfigError(f"a ReAct reply has exactly one action, got {len(calls)}")
        call = calls[0]
        given = dump(call.arguments) if call.text is None else call.text
        return _thought(thought, f"Action: {call.name}\nAction Input: {given}")

    def write_answer(self, answer: str, thought: str) -> str:
        return _thought(thought, f"Final Answer: {answer}")

    def render_result(self, call: ToolCall, result: str) -> str:
        return f"Observation: {result}"

    def tell(self, call: ToolCall) -> str:
        return (
            f"in this form:\n{self.write((call,), 'why this helps')}\n"
            "The result follows as an observation. To answer, reply in this form:\n"
            f"{self.write_answer('your answer', 'why you are done')}"
        )


def _thought(thought: str, text: str) -> str:
    return f"Thought: {thought}\n{text}" if thought else text


def _action(action: str, given: str | None, thought: str) -> Parsed:
    action = action.strip("`").strip()
    if not action:
        raise BrokenCall("the action is empty")
    if given is None:
        # There is no telling a tool without parameters from a move in a game; see ``Parsed``.
        found = _BRACKETS.fullmatch(action)
        call = ToolCall(found[1], text=found[2].strip()) if found else ToolCall(action)
        return Parsed((call,), action, thought)
    if given.startswith("```"):
        given = given.partition("\n")[2].rpartition("```")[0].strip()
    return Parsed((_with_input(action, given),), thought=thought)


def _with_input(action: str, given: str) -> ToolCall:
    if not given.startswith(("{", "[", '"')):
        return ToolCall(action, text=given or None)
    try:
        value, end = read_json(given)
    except BrokenCall:
        if given[0] == "{":
            raise
        value, end = None, 0  # [1, 2 or "so" he said: text after all
    if isinstance(value, dict):
        return ToolCall(action, value)
    is_string = isinstance(value, str) and end == len(given)
    return ToolCall(action, text=value if is_string else given)


# --- function calling -----------------------------------------------------------------------------

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
    """Return the values that stand in a row at ``at``, one at least, and where they end."""
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
        return read_function_tag(text, at)
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
    said = message.get("content")
    content = said if isinstance(said, str) else None
    if listed := message.get("tool_calls") or message.get("function_call"):
        return Parsed(_all_calls([listed]), thought=content or "")
    calls = () if content is not None else read_calls(values)
    return Parsed(calls) if calls else Parsed(answer=text if content is None else content)


def _all_calls(values: list[Any]) -> tuple[ToolCall, ...]:
    """Return the calls that ``values`` are, each of which was meant as one."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    calls = read_calls(flat)
    if not calls or len(calls) < len(flat):
        raise BrokenCall("it needs a name and arguments")
    return calls


def write_hermes(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write JSON objects in ``<tool_call>`` tags."""
    return _under(thought, *(f"{_OPEN}\n{write_call(call)}\n{_CLOSE}" for call in calls))


def write_llama(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write objects with ``parameters``."""
    text = "; ".join(write_call(call, arguments="parameters") for call in calls)
    return f"{thought}\n{_TAG}{text}" if thought else text


def write_mistral(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write a list after ``[TOOL_CALLS]``."""
    return _under(thought, f"{_LIST} [{', '.join(write_call(call) for call in calls)}]")


def write_openai(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write a message of the chat API as JSON."""
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
    write_hermes,
    f'Write it as {_OPEN}{{"name": "...", "arguments": {{...}}}}{_CLOSE}.',
    "<tool_response>\n{}\n</tool_response>",
)
STYLES = {
    "auto": _HERMES,
    "openai": Style(
        write_openai,
        'Write it as {"tool_calls": [{"type": "function", "function": {"name": "...", "arguments": '
        '"{...}"}}]}.',
    ),
    "hermes": _HERMES,
    "qwen": _HERMES,
    "llama3": Style(
        write_llama, 'Write it as {"name": "...", "parameters": {...}} and nothing else.'
    ),
    "mistral": Style(
        write_mistral, f'Write it as {_LIST}[{{"name": "...", "arguments": {{...}}}}].'
    ),
}


class FunctionCallingParser(ActionParser):
    """Reads function calls as every family of models writes them, and writes them as one does.

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

    def write_answer(self, answer: str, thought: str) -> str:
        if thought:
            raise ConfigError(f"an answer in the {self.name} format has no thought beside it")
        return answer

    def render_result(self, call: ToolCall, result: str) -> str:
        return STYLES[self.style].result.replace("{}", result)

    def tell(self, call: ToolCall) -> str:
        return (
            f"in this form:\n{self.write((call,), '')}\n"
            "The result comes in the next message. A reply without a call is your answer."
        )


PARSERS = ("json", "react", *STYLES)
"""Names that ``get_parser`` knows."""


def get_parser(parser: str | ActionParser) -> ActionParser:
    """Return the parser called ``parser``; one that is given is returned as it is.

    >>> get_parser("react").parse("Final Answer: 2").answer
    '2'
    """
    if isinstance(parser, ActionParser):
        return parser
    if parser not in PARSERS:
        raise ConfigError(f"parser must be one of {', '.join(PARSERS)}, got {parser!r}")
    if parser == "json":
        return JSONActionParser()
    return ReActActionParser() if parser == "react" else FunctionCallingParser(parser)

"""The parsers of calls by name: JSON, ReAct, and function calling in the styles of models."""

import re

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import (
    ActionParser,
    BrokenCall,
    Parsed,
    ToolCall,
    dump,
    find_json,
    read_calls,
    read_json,
    write_call,
)
from llm_gym.reading.function_calling import STYLES, FunctionCallingParser

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


class JSONActionParser(ActionParser):
    r"""Reads ``{"tool": ..., "args": {...}}``; several calls are several objects or a list.

    Common other names of the two keys are read, too. ``{"answer": ...}`` is an answer, and
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
        texts = [write_call(call, "tool", "args") for call in calls]
        return "\n".join(filter(None, (thought, *texts)))

    def write_answer(self, answer: str) -> str:
        return dump({"answer": answer})

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
    r"""Reads the first action of a reply; text after it is ignored.

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
        action = f"Action: {call.name}\nAction Input: {given}"
        return f"Thought: {thought}\n{action}" if thought else action

    def write_answer(self, answer: str) -> str:
        return f"Final Answer: {answer}"

    def render_result(self, call: ToolCall, result: str) -> str:
        return f"Observation: {result}"

    def tell(self, call: ToolCall) -> str:
        return (
            f"in this form:\n{self.write((call,), 'why this helps')}\n"
            "The result follows as an observation. To answer, reply in this form:\n"
            "Thought: why you are done\nFinal Answer: your answer"
        )


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

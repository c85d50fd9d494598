"""ReAct: Thought, Action, Action Input, Final Answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_gym.errors import ConfigError
from llm_gym.parsing.base import ActionParser, Parsed, ToolCall, ToolDefinition, broken
from llm_gym.parsing.calls import BrokenJson, dump, example_call, list_tools, read_json

_LABEL = re.compile(
    r"^[ \t]*\**(thought|action input|action|final answer|observation)\**[ \t]*:\**",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKETS = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,63})\[(.*)\]", re.DOTALL)
_HOW = (
    'Write "Action: name" and then "Action Input: {...}" with a JSON object, each on its own line'
)
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

    def read(self, text: str) -> Parsed:
        thought: list[str] = []
        labels = list(_LABEL.finditer(text))
        ends = [label.start() for label in labels[1:]] + [len(text)]
        first = labels[0].start() if labels else len(text)
        if labels and text[:first].strip():
            thought.append(text[:first].strip())
        for at, label in enumerate(labels):
            kind, body = label[1].lower(), text[label.end() : ends[at]].strip()
            if kind == "thought" and body:
                thought.append(body)
            elif kind == "final answer":
                return _answer(text, label.end(), labels[at + 1 :], "\n".join(thought))
            elif kind == "action":
                given = None
                if at + 1 < len(labels) and labels[at + 1][1].lower() == "action input":
                    given = text[labels[at + 1].end() : ends[at + 1]].strip()
                return _action(body, given, "\n".join(thought))
            elif kind == "observation":
                break
        return Parsed(problem=_NOTHING)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        if len(calls) != 1:
            raise ConfigError(f"a ReAct reply has exactly one action, got {len(calls)}")
        call = calls[0]
        given = dump(call.arguments) if call.text is None else call.text
        head = f"Thought: {thought}\n" if thought else ""
        return f"{head}Action: {call.name}\nAction Input: {given}"

    def write_answer(self, answer: str, thought: str) -> str:
        head = f"Thought: {thought}\n" if thought else ""
        return f"{head}Final Answer: {answer}"

    def render_result(self, call: ToolCall, result: str) -> str:
        return f"Observation: {result}"

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        if not tools:
            return ""
        call = self.write((example_call(tools),), "why this helps")
        return (
            f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply in this form:\n"
            f"{call}\nThe result follows as an observation. To answer, reply in this form:\n"
            f"{self.write_answer('your answer', 'why you are done')}"
        )


def _answer(text: str, start: int, later: list[re.Match[str]], thought: str) -> Parsed:
    end = next((one.start() for one in later if one[1].lower() == "observation"), len(text))
    answer = text[start:end].strip()
    return Parsed(answer=answer, thought=thought) if answer else Parsed(problem=_NOTHING)


def _action(action: str, given: str | None, thought: str) -> Parsed:
    action = action.strip("`").strip()
    if not action:
        return broken("the action is empty", f"{_HOW}.")
    if given is None:
        # There is no telling a tool without parameters from a move in a game; see ``Parsed``.
        found = _BRACKETS.fullmatch(action)
        call = ToolCall(found[1], text=found[2].strip()) if found else ToolCall(action)
        return Parsed((call,), action, thought)
    given = _unfenced(given)
    if not given:
        return Parsed((ToolCall(action),), thought=thought)
    if given[0] not in '{["':
        return Parsed((ToolCall(action, text=given),), thought=thought)
    read = read_json(given)
    if isinstance(read, BrokenJson):
        if given[0] != "{":  # [1, 2 or "so" he said: text after all
            return Parsed((ToolCall(action, text=given),), thought=thought)
        return broken(read.why, f"{_HOW}.")
    if isinstance(read.value, dict):
        return Parsed((ToolCall(action, read.value),), thought=thought)
    whole = isinstance(read.value, str) and read.end == len(given)
    return Parsed((ToolCall(action, text=read.value if whole else given),), thought=thought)


def _unfenced(text: str) -> str:
    if not text.startswith("```"):
        return text
    return text.partition("\n")[2].rpartition("```")[0].strip()

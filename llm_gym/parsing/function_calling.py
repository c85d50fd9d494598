"""The formats in which models were trained to call functions."""

from __future__ import annotations

from collections.abc import Sequence

from llm_gym.errors import ConfigError
from llm_gym.parsing.base import ActionParser, Parsed, ToolCall
from llm_gym.parsing.calls import example_call, list_tools
from llm_gym.parsing.definition import ToolDefinition
from llm_gym.parsing.styles import STYLES


class FunctionCallingParser(ActionParser):
    """Reads function calls as a family of models writes them.

    Args:
        style: ``openai`` (a message of the chat API as JSON), ``hermes`` or ``qwen`` (JSON in
            ``<tool_call>`` tags, or the XML of Qwen's coders), ``llama3`` (JSON with
            ``parameters``), ``mistral`` (a list after ``[TOOL_CALLS]``), or ``auto``, which
            reads all of them and writes Hermes.

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
        self.name, self.style = style, style

    def read(self, text: str) -> Parsed:
        return STYLES[self.style].read(text)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        return STYLES[self.style].write(calls, thought)

    def write_answer(self, answer: str, thought: str) -> str:
        if thought:
            raise ConfigError(f"an answer in the {self.name} format has no thought beside it")
        return answer

    def render_result(self, call: ToolCall, result: str) -> str:
        return STYLES[self.style].result.replace("{}", result)

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        if not tools:
            return ""
        return (
            f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply in this form:\n"
            f"{self.write((example_call(tools),), '')}\n"
            "The result comes in the next message. A reply without a call is your answer."
        )

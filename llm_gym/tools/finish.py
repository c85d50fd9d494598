"""``finish``: a call that says the answer is ready."""

from __future__ import annotations

from typing import Any

from llm_gym.tools.definition import Tool, ToolDefinition

_DEFINITION = ToolDefinition(
    "finish",
    "Give the final answer.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "The final answer."}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)


class FinishTool(Tool):
    """Ends the use of tools; under ``ToolUse`` the answer is played as the move.

    >>> FinishTool().execute(answer="42")
    '42'
    """

    timeout = None
    final = True

    @property
    def definition(self) -> ToolDefinition:
        return _DEFINITION

    def execute(self, /, **params: Any) -> str:
        return str(params["answer"])

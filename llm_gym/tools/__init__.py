"""Tools that a model may call: definitions, a registry that runs them, and built-in tools."""

from llm_gym.tools.calling import FinishTool, ToolResult
from llm_gym.tools.definition import FunctionTool, Tool, ToolDefinition, ToolError, tool
from llm_gym.tools.manager import EnvironmentStepTool, MultiTurnManager, ToolTurn
from llm_gym.tools.registry import ToolRegistry, as_registry, get_tool

__all__ = [
    "EnvironmentStepTool", "FinishTool", "FunctionTool", "MultiTurnManager", "Tool",
    "ToolDefinition", "ToolError", "ToolRegistry", "ToolResult", "ToolTurn", "as_registry",
    "get_tool", "tool",
]  # fmt: skip

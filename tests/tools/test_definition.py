"""Definitions: the schema that a model reads follows from the function."""

import copy
import pickle
from typing import Any, Literal, Optional

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.tools import FunctionTool, Tool, ToolDefinition, ToolRegistry, tool

NOTHING = {"type": "object", "properties": {}}


@tool
def everything(
    text: str,
    count: int,
    share: float = 0.5,
    exact: bool = False,
    order: Literal["new", "old"] = "new",
    tags: list[str] | None = None,
    extra: dict[str, int] | None = None,
    maybe: Optional[int] = None,  # noqa: UP045 - the old way of writing it
    anything: Any = None,
) -> str:
    """Do everything
    at once.

    And more of it.

    Args:
        text: What to
            look at.
        count (int): How often: at least once.
        tags: Words.

    Returns:
        text: Not an argument.
    """
    return f"{text} {count} {share} {exact} {order} {tags} {extra} {maybe} {anything}"


@tool(timeout=2)
def quick() -> int:
    """Return one."""
    return 1


def test_types_and_docstring_become_the_schema():
    definition = everything.definition
    assert definition.name == "everything"
    assert definition.description == "Do everything at once.\n\nAnd more of it."
    assert definition.required == ("text", "count")
    assert definition.parameters["additionalProperties"] is False
    assert definition.properties == {
        "text": {"type": "string", "description": "What to look at."},
        "count": {"type": "integer", "description": "How often: at least once."},
        "share": {"type": "number", "default": 0.5},
        "exact": {"type": "boolean", "default": False},
        "order": {"type": "string", "enum": ["new", "old"], "default": "new"},
        "tags": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            "description": "Words.",
            "default": None,
        },
        "extra": {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "integer"}},
                {"type": "null"},
            ],
            "default": None,
        },
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "anything": {"default": None},
    }


def test_a_decorated_function_is_still_a_function():
    assert quick() == 1
    assert everything("a", count=2).startswith("a 2 0.5")
    assert quick.timeout == 2
    assert repr(quick) == "<tool quick>"
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    function = {"name": "quick", "description": "Return one.", "parameters": parameters}
    assert quick.definition.schema() == {"type": "function", "function": function}


def undecorated(text: str) -> str:
    """Say it."""
    return text


@pytest.mark.parametrize("one", [quick, FunctionTool(undecorated)], ids=["decorated", "wrapped"])
def test_function_tools_can_be_pickled_and_copied(one):
    again = pickle.loads(pickle.dumps(one))
    assert again.definition == one.definition
    assert copy.deepcopy(one) is one
    registry = pickle.loads(pickle.dumps(ToolRegistry([one])))
    assert list(registry.tools) == [one.name]


UNUSABLE = {
    "def f(text: str): return text": "needs a docstring",
    "def f(text): 'Say it.'": "parameter text of the tool f needs a type",
    "def f(text: bytes): 'Say it.'": "must be made of str",
    "def f(*texts: str): 'Say it.'": "given by name",
    "def f(**texts: str): 'Say it.'": "given by name",
    "def f(text: str, /): 'Say it.'": "given by name",
    "def f(text: str): 'Say it.\\n\\nArgs:\\n    words: What to say.'": r"describes \['words'\]",
    "async def f(text: str): 'Say it.'": "must be a plain function",
}


@pytest.mark.parametrize(("source", "why"), UNUSABLE.items())
def test_functions_that_a_model_could_not_call_are_refused(source, why):
    made = {}
    exec(source, made)
    with pytest.raises(ConfigError, match=why):
        tool(made["f"])


@pytest.mark.parametrize("name", ["", "a b", "1st", "é", "a" * 65, None, "a\n"])
def test_a_bad_name_or_schema_is_refused(name):
    with pytest.raises(ConfigError, match="name"):
        ToolDefinition(name, "Something.")
    with pytest.raises(ConfigError, match="JSON schema"):
        ToolDefinition("f", "Something.", {"a": {"type": "string"}})
    assert ToolDefinition("f", "Something.", NOTHING).required == ()
    with pytest.raises(TypeError, match="abstract"):
        Tool()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "1"])
def test_a_bad_timeout_is_refused(timeout):
    with pytest.raises(ConfigError, match="timeout must be"):
        tool(timeout=timeout)(undecorated)

"""What a model or somebody's server may write into calls and schemas: answered, never raised."""

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llm_gym  # noqa: F401 - registers the environments
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import Parsed
from llm_gym.tools import ToolRegistry
from llm_gym.tools.calling import run_calls
from llm_gym.tools.schema import fit
from llm_gym.wrappers import ToolUse


def listed(items: list) -> int:
    """Count them."""
    return len(items)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [33, 300, 496, 900, 5000])
@pytest.mark.parametrize("name", ["listed", "unknown"])
def test_deeply_nested_arguments_are_answered(levels, name):
    env = ToolUse(gym.make("llm_gym/GuessTheNumber-v0"), [listed])
    env.reset(seed=0)
    call = (
        f'<tool_call>{{"name": "{name}", "arguments": {{"items": {nested(levels)}}}}}</tool_call>'
    )
    told, _, _, _, info = env.step(call)
    assert "nested" in told
    assert info["tool_calls"][0]["arguments"] == {}
    env.close()


def test_arguments_of_very_many_values_are_answered_without_a_look_at_each():
    env = ToolUse(gym.make("llm_gym/GuessTheNumber-v0"), [listed])
    env.reset(seed=0)
    many = ",".join(["[1]"] * 50_000)
    call = f'<tool_call>{{"name": "listed", "arguments": {{"items": [{many}]}}}}</tool_call>'
    told, _, _, _, info = env.step(call)
    assert "at most 10000 values" in told
    assert info["tool_calls"][0]["arguments"] == {}
    env.close()


def test_a_call_over_the_budget_keeps_no_deep_arguments():
    deep: dict = {}
    at = deep
    for _ in range(1000):
        at["x"] = at = {}
    ran = run_calls(ToolRegistry([listed]), Parsed(calls=(ToolCall("listed", deep),)), allowed=0)
    assert ran.results[0].to_dict()["arguments"] == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"minimum": "zero"}, {"maximum": []}, {"minLength": "1"}, {"maxItems": None},
        {"type": 7}, {"type": ["integer", 7, None]}, {"type": {}}, {"enum": 5}, {"enum": None},
        {"required": 7}, {"required": [7]}, {"properties": []}, {"properties": {"a": 7}},
        {"items": 7}, {"anyOf": [7]}, {"oneOf": {}}, {"additionalProperties": 7},
        {"minimum": True}, {"minimum": float("nan")},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("value", [1, "a", [1], {"a": 1}, None, True, 1e300])
def test_a_schema_that_is_none_restricts_nothing_and_raises_nothing(schema, value):
    assert fit(value, schema) == (value, "")
    inside = {"type": "object", "properties": {"a": schema}}
    assert fit({"a": value}, inside) == ({"a": value}, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "anyOf", "items", "properties", "minimum", "enum", "x"]), inner,
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip


@given(value=JSON, schema=st.dictionaries(st.sampled_from(["type", "anyOf", "oneOf", "items",
       "properties", "required", "minimum", "maximum", "minLength", "enum", "const",
       "additionalProperties"]), JSON, max_size=4))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_any_schema_and_any_value_fit_or_have_a_problem(value, schema):
    assert isinstance(fit(value, schema).problem, str)


def test_choices_inside_choices_come_to_an_end():
    schema: dict = {"type": "null"}
    for _ in range(15):
        schema = {"anyOf": [schema] * 8}
    assert fit("x", schema).problem

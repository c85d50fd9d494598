"""Arguments against their schema: what fits, what is converted, and why one does not fit."""

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import Parsed
from llm_gym.tools import ToolRegistry
from llm_gym.tools.calling import run_calls
from llm_gym.tools.schema import fit, show
from llm_gym.wrappers import ToolUse

INTEGER, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}
BOOLEAN, LIST, OBJECT = {"type": "boolean"}, {"type": "array"}, {"type": "object"}
MAYBE = {"anyOf": [INTEGER, {"type": "null"}]}


@pytest.mark.parametrize(
    ("value", "schema", "fitted"),
    [
        (0, INTEGER, 0), (5.0, INTEGER, 5), ("5", INTEGER, 5), ("-5", INTEGER, -5), (5, NUMBER, 5),
        ("1.5", NUMBER, 1.5), ("true", BOOLEAN, True), ("[1]", LIST, [1]),
        ('{"a": 1}', OBJECT, {"a": 1}), ("5", STRING, "5"), ("", STRING, ""), (None, MAYBE, None),
        (3, MAYBE, 3), ("3", MAYBE, 3), ("3", {"anyOf": [INTEGER, STRING]}, "3"),
        ("3", {"type": ["integer", "string"]}, "3"),
        ({"a": {"b": ["1"]}}, {"properties": {"a": {"properties": {"b": {"items": INTEGER}}}}},
         {"a": {"b": [1]}}),
        ({"a": 1}, {"type": "object", "additionalProperties": STRING | NUMBER}, {"a": 1}),
        ("x", {}, "x"), ("x", {"type": "something new"}, "x"), (1, {"enum": [1, "a"]}, 1),
        (True, {"const": True}, True),
    ],
)  # fmt: skip
def test_a_fitting_value_is_converted_to_its_type(value, schema, fitted):
    found = fit(value, schema)
    assert found.problem == ""
    assert found.value == fitted
    assert type(found.value) is type(fitted)


@pytest.mark.parametrize(
    ("value", "schema", "problem"),
    [
        ("five", INTEGER, 'n must be a whole number, got "five"'),
        (5.5, INTEGER, "n must be a whole number, got 5.5"),
        (True, INTEGER, "n must be a whole number, got true"),
        (1, BOOLEAN, "n must be true or false, got 1"),
        (5, STRING, "n must be a string, got 5"),
        (None, STRING, "n must be a string, got null"),
        ("null", INTEGER, 'n must be a whole number, got "null"'),
        (float("nan"), NUMBER, "n must be a number, got NaN"),
        ("x", {"type": ["integer", "null"]}, 'n must be a whole number or null, got "x"'),
        ("mid", {"enum": ["new", "old"]}, 'n must be one of "new", "old", got "mid"'),
        (1, {"enum": [True]}, "n must be true, got 1"),
        (2, {"const": 3}, "n must be 3, got 2"),
        (-1, {"type": "integer", "minimum": 0}, "n must be at least 0, got -1"),
        (9, {"type": "integer", "maximum": 8}, "n must be at most 8, got 9"),
        ("abc", {"maxLength": 2}, "n must have at most 2 characters, got 3"),
        ("", {"minLength": 1}, "n must have at least 1 characters, got 0"),
        ([1, 2], {"maxItems": 1}, "n must have at most 1 items, got 2"),
        ([1, "b"], {"items": INTEGER}, 'n[1] must be a whole number, got "b"'),
        ({}, {"required": ["a"]}, "n.a is missing"),
        ({"b": 1}, {"properties": {"a": {}}, "additionalProperties": False},
         "n.b is unknown; known: a"),
        ({"a": {"b": "x"}}, {"properties": {"a": {"properties": {"b": INTEGER}}}},
         'n.a.b must be a whole number, got "x"'),
        ("x", MAYBE, 'n must be a whole number, got "x"; or n must be null, got "x"'),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_explained(value, schema, problem):
    assert fit(value, schema, "n").problem == problem
    if problem.startswith("n."):  # the arguments of a call are named without a prefix
        assert fit(value, schema).problem == problem.removeprefix("n.")


def test_deep_values_are_refused_rather_than_followed():
    deep: object = 0
    for _ in range(500):
        deep = {"a": deep}
    assert "nested too deeply" in fit(deep, OBJECT).problem
    assert len(show(deep)) < 200
    assert len(show("x" * 10_000)) < 200


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([INTEGER, NUMBER, STRING, BOOLEAN, LIST, OBJECT, MAYBE, {}]))
def test_fitting_a_fitted_value_changes_nothing(value, schema):
    found = fit(value, schema)
    if not found.problem:
        again = fit(found.value, schema)
        assert again.problem == ""
        assert again.value == found.value or "nan" in repr(again.value)


def listed(items: list) -> int:
    """Count them."""
    return len(items)


@pytest.mark.parametrize("name", ["listed", "unknown"])
@pytest.mark.parametrize(
    ("items", "why"),
    [
        *(("[" * levels + "]" * levels, "nested") for levels in (33, 300, 496, 900, 5000)),
        (f"[{','.join(['[1]'] * 50_000)}]", "at most 10000 values"),  # without a look at each
    ],
    ids=lambda part: str(len(part)),
)
def test_deeply_nested_or_too_many_arguments_are_refused(items, why, name):
    env = ToolUse(gym.make("llm_gym/GuessTheNumber-v0"), [listed])
    env.reset(seed=0)
    call = f'<tool_call>{{"name": "{name}", "arguments": {{"items": {items}}}}}</tool_call>'
    observation, _, _, _, info = env.step(call)
    assert why in observation
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
def test_an_invalid_schema_restricts_nothing(schema, value):
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
def test_any_schema_and_any_value_fit_or_have_a_problem(value, schema):
    assert isinstance(fit(value, schema).problem, str)


def test_nested_anyof_is_checked_in_bounded_work():
    schema: dict = {"type": "null"}
    for _ in range(15):
        schema = {"anyOf": [schema] * 8}
    assert fit("x", schema).problem

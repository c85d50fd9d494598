"""The registry: whatever a call does, the answer is text, and it is bounded."""

import functools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.tools import FinishTool, Tool, ToolError, ToolRegistry, get_tool, tool
from llm_gym.tools.registry import as_registry
from tests.tools.test_schema import VALUES


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Adder(Tool):
    """The long way to write a tool."""

    definition = tool(add).definition

    def __init__(self):
        self.resets = self.closes = 0

    def execute(self, /, **params):
        return params["a"] + params["b"]

    def reset(self):
        self.resets += 1

    def close(self):
        self.closes += 1


@tool
def parrot(name: str, self: str = "") -> str:
    """Say a name; its parameters have names that Python likes for itself."""
    return name + self


@tool
def broken(kind: str) -> str:
    """Raise something."""
    if kind == "tool":
        raise ToolError("No such page.")
    raise {"key": KeyError, "exit": SystemExit}[kind](f"odd {kind}")


def test_a_registry_lists_resets_and_closes_its_tools():
    registry = ToolRegistry()
    assert registry.register(Adder()).name == "add"
    assert ("add" in registry, len(registry)) == (True, 1)
    assert registry.schemas()[0]["function"]["name"] == "add"
    registry.reset()
    registry.close()
    assert (registry.tools["add"].resets, registry.tools["add"].closes) == (1, 1)
    assert as_registry(registry) is registry
    assert list(as_registry(parrot).tools) == ["parrot"]
    assert isinstance(get_tool("finish"), FinishTool)


@pytest.mark.parametrize(
    ("name", "params", "answer"),
    [
        ("add", {"a": 2, "b": 3}, (True, "5")),
        ("add", {"a": "2", "b": 3.0}, (True, "5")),
        ("add", {"a": 1}, (False, "add was not called: b is missing.")),
        ("ad", {}, (False, "There is no tool 'ad'. Did you mean add? Tools: add, parrot, broken.")),
        (5, {}, (False, "There is no tool '5'. Tools: add, parrot, broken.")),
        ("parrot", {"name": "Polly", "self": "!"}, (True, "Polly!")),
        ("broken", {"kind": "tool"}, (False, "No such page.")),
        ("broken", {"kind": "key"}, (False, "broken failed: KeyError: 'odd key'")),
        ("broken", {"kind": "exit"}, (False, "broken failed: SystemExit: odd exit")),
    ],
)
def test_a_call_by_name_returns_success_and_text(name, params, answer):
    assert ToolRegistry([Adder(), parrot, broken]).execute_tool(name, **params) == answer


def test_a_long_unknown_name_is_cut_in_the_answer():
    answer = ToolRegistry().execute_tool("x" * 10_000)[1]
    assert "Tools: none" in answer
    assert len(answer) < 200


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"), (None, "null"), (1.5, "1.5"), ([1, "é"], '[1, "é"]'),
        ({"a": None}, '{"a": null}'), ({1, 2}, "{1, 2}"), (b"bytes", "b'bytes'"),
    ],
)  # fmt: skip
def test_results_become_text(result, text):
    @tool(timeout=None)
    def give() -> object:
        """Give it."""
        return result

    assert ToolRegistry([give]).execute_tool("give") == (True, text)


@pytest.mark.parametrize("limit", [100, 1000])
def test_a_long_result_loses_its_middle(limit):
    @tool(timeout=None)
    def talk() -> str:
        """Talk."""
        return "begin" + "x" * 50_000 + "end"

    success, text = ToolRegistry([talk], max_result_chars=limit).execute_tool("talk")
    assert success
    assert limit - 5 <= len(text) <= limit
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "characters left out" in text
    with pytest.raises(ConfigError, match="max_result_chars"):
        ToolRegistry(max_result_chars=10)


def test_a_tool_that_hangs_is_abandoned():
    go_on = threading.Event()

    @tool(timeout=0.2)
    def wait() -> str:
        """Wait."""
        go_on.wait(60)
        return "done"

    @tool(timeout=60)  # of its own: the other one's is too short for a busy machine
    def answer() -> str:
        """Answer."""
        return "here"

    registry = ToolRegistry([wait, answer])
    assert registry.execute_tool("wait") == (False, "wait took longer than 0.2 s.")
    assert registry.execute_tool("answer") == (True, "here")
    go_on.set()


def test_a_tool_without_a_timeout_runs_in_the_callers_thread():
    def where() -> str:
        """Say where."""
        return threading.current_thread().name

    here = threading.current_thread().name
    assert ToolRegistry([tool(timeout=None)(where)]).execute_tool("where") == (True, here)
    assert ToolRegistry([tool(where)]).execute_tool("where") == (True, "where")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(Adder, "build a class first"), (3, "got 3"), ("add", "got 'add'"), (len, "len"),
     (functools.partial(add, 1), "partial")],
)  # fmt: skip
def test_only_tools_and_functions_are_registered(wrong, why):
    with pytest.raises(ConfigError, match=why):
        ToolRegistry().register(wrong)


def test_a_wrapped_function_is_a_function_and_no_two_tools_have_one_name():
    assert ToolRegistry([functools.cache(add)]).execute_tool("add", a=1, b=2) == (True, "3")
    with pytest.raises(ConfigError, match="add"):
        ToolRegistry([Adder(), Adder()])


@given(st.one_of(st.just("add"), st.text()), st.dictionaries(st.text(), VALUES, max_size=3))
def test_any_call_is_answered(name, params):
    success, result = ToolRegistry([Adder()]).execute_tool(name, **params)
    assert isinstance(success, bool)
    assert isinstance(result, str)
    assert len(result) <= 4000


def test_tools_are_found_by_module_and_name(monkeypatch, tmp_path):
    (tmp_path / "own_tools.py").write_text(
        "from llm_gym.tools import FinishTool\n"
        "class Loud(FinishTool):\n"
        "    def __init__(self, mark='!'):\n"
        "        self.mark = mark\n"
        "    def execute(self, /, **params):\n"
        "        return params['answer'] + self.mark\n"
        "def plain(n: int) -> int:\n"
        "    'Give it back.'\n"
        "    return n\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert as_registry(["own_tools:plain"]).execute_tool("plain", n=1) == (True, "1")
    loud = as_registry([{"tool": "own_tools:Loud", "mark": "?"}])
    assert loud.execute_tool("finish", answer="a") == (True, "a?")
    with pytest.raises(ConfigError, match="built already"):
        as_registry([{"tool": "own_tools:plain", "n": 1}])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("nothing", "a tool must be one of finish"),
        ("no_such_module:f", "cannot import the tool"),
        ("json:f", "cannot import the tool"),
        ({"name": "finish"}, 'needs its name as "tool"'),
    ],
)
def test_an_unknown_tool_is_refused(source, why):
    with pytest.raises(ConfigError, match=why):
        as_registry([source])

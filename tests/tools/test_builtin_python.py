"""The python tool."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.tools import ToolError, ToolRegistry, get_tool
from llm_gym.tools.builtin.calculator import arithmetic
from llm_gym.tools.builtin.python import PythonTool
from llm_gym.tools.sandbox import Sandbox
from tests.tools.sandbox.sandboxes import forbid_isolation


@pytest.fixture(params=["auto", "none"])
def python(request):
    made = []

    def make(**settings):
        made.append(PythonTool(isolation=request.param, **settings))
        return made[-1]

    try:
        make().execute(code="'x'")
    except ToolError as error:
        pytest.skip(str(error))
    yield make
    for tool in made:
        tool.close()


def test_the_result_is_the_printed_output(python):
    registry = ToolRegistry([python()])
    assert registry.execute_tool("python", code="print(6 * 7)") == (True, "42")
    assert registry.execute_tool("python", code="x = 1") == (True, "(no output)")


def test_an_exception_is_shown_to_the_model(python):
    registry = ToolRegistry([python()])
    ok, text = registry.execute_tool("python", code="print('half')\n1 / 0")
    assert not ok
    assert text.startswith("half\n")
    assert text.endswith("ZeroDivisionError: division by zero")


def test_a_stateless_tool_forgets_and_a_stateful_one_does_not(python):
    once, on = python(), python(stateful=True)
    for tool in (once, on):
        tool.execute(code="x = 5")
    with pytest.raises(ToolError, match="NameError"):
        once.execute(code="x")
    assert on.execute(code="x") == "5"
    on.reset()
    with pytest.raises(ToolError, match="NameError"):
        on.execute(code="x")
    assert "kept" in on.definition.description
    assert "kept" not in once.definition.description


def test_a_copy_in_mid_episode_is_independent(python):
    tool = python(stateful=True)
    tool.execute(code="x = [1]")
    for twin in (pickle.loads(pickle.dumps(tool)), copy.deepcopy(tool)):
        assert twin.execute(code="x.append(2)\nx") == "[1, 2]"
        twin.close()
    assert tool.execute(code="x") == "[1]"


def test_a_timeout_ends_the_process(python):
    tool = python(stateful=True, timeout=1.5)
    tool.execute(code="x = 1")
    with pytest.raises(ToolError, match=r"(?s)longer than 1.5 s.*variables were lost"):
        tool.execute(code="while True: pass")
    with pytest.raises(ToolError, match="NameError"):
        tool.execute(code="x")
    for timeout in (0, -1, "soon"):
        with pytest.raises(ConfigError, match="timeout"):
            PythonTool(timeout=timeout)


def test_memory_is_a_setting(python):
    with pytest.raises(ToolError, match="MemoryError"):
        python(memory_mb=100).execute(code="x = bytearray(150 * 2**20)")
    assert python(memory_mb=300).execute(code="x = bytearray(150 * 2**20)\nlen(x)") == "157286400"


def test_a_given_sandbox_is_used_and_tools_are_found_by_name():
    with Sandbox(isolation="none", output_chars=5) as sandbox:
        assert PythonTool(sandbox=sandbox).execute(code="print('x' * 9)").startswith("xxxxx\n")
    assert get_tool("python", stateful=True).stateful
    assert get_tool("calculator").execute(expression="1 + 1") == "2"


def test_without_isolation_the_result_is_an_error(monkeypatch):
    forbid_isolation(monkeypatch)
    for stateful in (False, True):
        registry = ToolRegistry([PythonTool(stateful=stateful)])
        ok, text = registry.execute_tool("python", code="print('x')")
        assert (ok, "cannot be isolated" in text) == (False, True)


def test_arithmetic_needs_no_sandbox_at_all(monkeypatch):
    monkeypatch.setattr(Sandbox, "_started", None)
    tool = PythonTool()
    assert tool.execute(code="print(6 * 7)") == "42"
    assert tool.execute(code=" (2 ** 10 - 24) / 8 ") == "125.0"


@given(
    st.recursive(
        st.one_of(
            st.integers(0, 10**12).map(str), st.floats(0, 1e6).map(lambda x: f"{x:f}"),
        ),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join),
            inner.map("({})".format), inner.map("-{}".format),
            st.tuples(inner, st.integers(-9, 9).map(str)).map(" ** ".join),
        ),
        max_leaves=6,
    )
)  # fmt: skip
def test_arithmetic_is_exactly_what_python_prints(expression):
    found = arithmetic(f"print({expression})")
    if found is not None:
        assert found == repr(eval(expression))
        assert arithmetic(expression) == found


@pytest.mark.parametrize(
    "code",
    [
        "print(1, 2)", "print()", "x", "1; 2", "1\n2", "1 / 0", "9 ** 999999", "(" * 200, "1 or 2",
        "print(1) + 1", "1 == 1", "1e5", "0777", "(1,)", "1 and 2", "()", "print(1)(2)",
        "1.5 ** 9000", "(-8) ** 0.5", "...", "1 .real", "-" * 299,
    ],
)  # fmt: skip
def test_other_code_than_plain_arithmetic_is_left_to_python(code):
    assert arithmetic(code) is None

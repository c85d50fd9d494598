"""MathPython: problems, the Python tool, formats of calls, and life without a sandbox."""

import contextlib
import io
import pickle

import numpy as np
import pytest

from llm_gym.envs.tool_use.math_python import KINDS, MathPythonEnv, read_problem
from llm_gym.envs.tool_use.tool_env import parse_call, parse_fence
from llm_gym.evaluate.scores import measure
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import PARSERS, get_parser
from llm_gym.tools.sandbox import Sandbox
from tests.envs.playing import start_game
from tests.tools.sandbox.sandboxes import forbid_isolation, refusal

needs_python = pytest.mark.skipif(bool(refusal("auto")), reason=refusal("auto"))


@pytest.fixture
def env():
    env = start_game("MathPython")
    yield env
    env.close()


def printed(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "size"), [(1, 1), (4, 100), (12, 100_000)])
def test_question_program_and_answer_agree(kind, steps, size):
    rng = np.random.default_rng(0)
    made = KINDS[kind]
    for _ in range(8 if steps < 12 else 3):
        numbers = made.draw(rng, steps, size)
        value, question = made.value(numbers), made.ask(numbers)
        assert printed(made.code(numbers)) == f"{value}\n"
        found, read = read_problem(question)
        assert found == kind
        assert made.value(read) == value
        assert "\n" not in made.code(numbers), "a move in the format plain is one line"


@pytest.mark.parametrize(
    ("kind", "numbers", "value"),
    [
        ("digits", (2, 10), 7),  # 1024
        ("primes", (1, 10), 17),
        ("count", (1, 30, 2, 3, 5), 16),
        ("sequence", (1, 2, 1, 1000, 5), 31),
        ("expression", (7, 3, 2, 4, 2), 1),  # 7 // 2 % 2
        ("story", (0, 0, 10, 0, 5, 0, 1, 2, 3, 4, 4, 0), 1),  # (10 + 5 + 2 * 3) % 4
    ],
)
def test_answers_known_in_advance(kind, numbers, value):
    assert KINDS[kind].value(numbers) == value


@pytest.mark.parametrize(
    "text", ["answer: {}", "{}", "Answer: {}.", "answer: The answer is {}", "answer:{}.0"]
)
def test_the_right_number_wins_however_it_is_written(env, text):
    value = KINDS[env._kind].value(env._numbers)
    _, reward, terminated, _, info = env.step(text.format(value))
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_a_wrong_number_loses_and_the_right_one_is_shown(env):
    value = KINDS[env._kind].value(env._numbers)
    obs, reward, terminated, *_ = env.step(f"answer: {value + 1}")
    assert (obs, reward, terminated) == (f"No, it is {value}.", 0.0, True)


def test_without_isolation_the_tool_reports_it_and_the_game_goes_on(env, monkeypatch):
    forbid_isolation(monkeypatch)
    obs, _, terminated, _, info = env.step("python: print('x')")
    assert "cannot be isolated" in obs
    assert (terminated, info["valid_action"]) == (False, True)
    for player in ("solver", "oracle"):
        assert measure(MathPythonEnv(), player, 20).success == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_solvers_program_needs_no_process(kind, monkeypatch):
    monkeypatch.setattr(Sandbox, "_started", None)  # a process would raise
    env = start_game("MathPython", 7, kinds=(kind,))
    move = env.solver_action()
    value = str(KINDS[kind].value(env._numbers))
    spaced = move.replace("(", " ( ").replace(")", " ) ").replace("  ", " ")
    assert env.step(move)[0].split("\n")[0] == value
    assert env.step(spaced)[0].split("\n")[0] == value
    assert env.step(f"{move}; print('x')")[0].split("\n")[0] != value


def test_neither_reset_nor_answers_start_a_process(env, monkeypatch):
    monkeypatch.setattr(Sandbox, "_started", None)
    for seed in range(5):
        env.reset(seed=seed)
        assert env.step("answer: 1")[4]["valid_action"], "and _started would have raised"


@needs_python
def test_code_runs_and_its_errors_are_shown(env):
    assert env.step("python: print(sum(range(101)))")[0].startswith("5050\n")
    assert "ZeroDivisionError" in env.step("python: 1 / 0")[0]
    assert env.step("python: len('four')")[0].startswith("4\n")
    assert env.turns_left == 1


@needs_python
@pytest.mark.parametrize(
    "reply",
    [
        "python:\nx = 20\nprint(x + 1)", "python: x = 20\nprint(x + 1)",
        "```py\nx = 20\nprint(x + 1)\n```", "```Python3\nx = 20\nprint(x + 1)\n```",
        "```python\nx = 20\nprint(x + 1)\n```\nThis program prints the sum.",
        "python:\n```\nx = 20\nprint(x + 1)\n```", "I will see.\nPython:\nx = 20\nprint(x + 1)",
    ],
)  # fmt: skip
def test_a_program_of_several_lines_is_read_as_models_write_it(env, reply):
    obs, *_, info = env.step(reply)
    assert obs.startswith("21\n")
    assert info["move"] == "python: x = 20\nprint(x + 1)"


def test_an_answer_after_a_program_is_the_move(env):
    *_, terminated, _, info = env.step("```python\nprint(1)\n```\nanswer: 7")
    assert info["move"] == "answer: 7"
    assert terminated


@needs_python
@pytest.mark.parametrize("action_format", ["tag", "json"])
def test_code_of_many_lines_can_be_written_in_other_formats(action_format):
    env = start_game("MathPython", action_format=action_format)
    action = env._base_format.render("python: x = 1\nfor i in range(3):\n    x *= 2\nprint(x)")
    assert env.step(action)[0].startswith("8\n")
    env.close()


@needs_python
@pytest.mark.parametrize("form", PARSERS)
def test_tool_calls_are_read_in_every_format_beside_plain_moves(form):
    env = start_game("MathPython")
    call = get_parser(form).render([ToolCall("python", {"code": "print(len('four'))"})])
    assert env.step(call)[0].startswith("4\n")
    assert env.step("python: print(len('seven'))")[0].startswith("5\n")
    assert env.step(env.oracle_action())[4]["valid_action"]
    env.close()


@needs_python
def test_stateful_keeps_variables():
    for stateful in (True, False):
        env = MathPythonEnv(stateful=stateful)
        obs, _ = env.reset(seed=0)
        assert ("Variables are kept" in obs) is stateful
        env.step("python: x = 5")
        assert env.step("python: x + 1")[0].startswith("6\n") is stateful
        env.reset(seed=1)
        assert "NameError" in env.step("python: x")[0], "an episode begins afresh"
        env.close()


@needs_python
def test_a_stateful_episode_can_be_saved_pickled_and_restored():
    env = start_game("MathPython", stateful=True)
    env.step("python: x = [1]")
    saved, twin = env.snapshot(), pickle.loads(pickle.dumps(env))
    for _ in range(2):
        assert env.step("python: x.append(2); x")[0].startswith("[1, 2]\n")
        env.restore(saved)
    assert twin.step("python: x")[0].startswith("[1]\n")
    for one in (env, twin):
        one.close()


@needs_python
def test_the_time_limit_is_a_setting():
    env = start_game("MathPython", timeout=0.2)
    assert "longer than 0.2 s" in env.step("python: while True: pass")[0]
    env.close()


def test_kinds_steps_and_digits_have_an_effect():
    for kind in KINDS:
        env = MathPythonEnv(kinds=[kind])
        for seed in range(5):
            env.reset(seed=seed)
            assert read_problem(env.question())[0] == kind
    few, many = (MathPythonEnv(kinds=["story"], steps=steps) for steps in (1, 9))
    assert few.reset(seed=0)[0].count(".") + 8 == many.reset(seed=0)[0].count(".")
    small, large = (MathPythonEnv(kinds=["expression"], digits=digits) for digits in (1, 6))
    assert len(small.reset(seed=0)[0]) < len(large.reset(seed=0)[0])


def test_moves_and_code_fences_are_parsed():
    assert parse_call("PYTHON : 1 + 1") == ("python", "1 + 1")
    assert parse_call("{'a': 1}") == ("", "{'a': 1}")
    assert parse_call(":") == ("", ":")
    assert parse_fence("```python\n1\n```\n```python\n2\n```") == ("python", "2")
    for text in ("", "```", "``````", "```python```", "a\n```"):
        assert parse_fence(text)[1] == ""

"""Turn by turn: tools, moves, budgets and the summary."""

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import JSONActionParser, get_parser
from llm_gym.tools import EnvironmentStepTool, FinishTool, MultiTurnManager, ToolRegistry, tool
from tests.tools.doubling import GAME, call, double


@pytest.fixture
def env():
    env = gym.make(GAME)
    env.reset(seed=0)
    return env


def manager(*tools, env=None, parser="json", **settings):
    return MultiTurnManager(ToolRegistry([double, *tools]), parser, env, **settings)


def test_the_documented_snippet_runs():
    env = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    registry = llm_gym.ToolRegistry()
    registry.register(double)
    success, result = registry.execute_tool("double", number=21)
    assert (success, result) == (True, "42")
    one = llm_gym.MultiTurnManager(registry, JSONActionParser(), env)
    turn = one.step("model output", env.reset())
    assert "Steps remaining: 9" in turn.tool_call.result


def test_a_call_is_run_and_an_answer_ends_the_conversation():
    one = manager()
    turn = one.step(f"Let me see. {call('double', number=4)}", "Twice 4?")
    assert (turn.number, turn.observation, turn.thought) == (0, "Twice 4?", "Let me see.")
    assert (turn.tool_call.name, turn.tool_call.arguments) == ("double", {"number": 4})
    assert (turn.tool_call.success, turn.tool_call.result) == (True, "8")
    assert turn.answer is None
    assert not one.done
    turn = one.step("It is 8.", turn.tool_call.result)
    assert (turn.answer, turn.tool_call, one.done) == ("It is 8.", None, True)
    assert [turn.output for turn in one.history] == [one.history[0].output, "It is 8."]
    with pytest.raises(ConfigError, match="reset"):
        one.step("more")
    one.reset()
    assert (one.history, one.done) == ([], False)


def test_several_calls_have_one_result():
    turn = manager(parser="hermes").step(
        get_parser("hermes").render([ToolCall("double", {"number": 1}), ToolCall("triple")])
    )
    assert [(one.name, one.success) for one in turn.tool_calls] == [
        ("double", True), ("triple", False),
    ]  # fmt: skip
    assert turn.tool_call.success is False
    assert turn.tool_call.result == (
        "<tool_response>\n2\n</tool_response>\n<tool_response>\n"
        "There is no tool 'triple'. Tools: double.\n</tool_response>"
    )


def test_an_unreadable_call_is_answered_with_the_reason():
    one = manager()
    turn = one.step("{'tool': 'double'}")
    assert not turn.tool_call.success
    assert "double quotes" in turn.tool_call.result
    assert one.episode_summary()["unreadable_replies"] == 1


def test_answers_are_moves_where_there_is_an_environment(env):
    one = manager(env=env)
    assert one.step(call("double", number=5), "Guess.").step is None
    turn = one.step("1", "10")
    assert turn.step.observation == turn.tool_call.result
    assert turn.tool_call.result == "The number is higher than 1.\nTurns left: 4."
    turn = one.step(env.unwrapped.oracle_action(), turn.tool_call.result)
    assert (turn.reward, turn.done, turn.step.terminated) == (1.0, True, True)
    assert one.episode_summary() == {
        "num_turns": 3, "num_tool_calls": 1, "tool_calls": {"double": 1}, "failed_calls": 0,
        "unreadable_replies": 0, "total_reward": 1.0, "answer": turn.answer, "success": True,
        "terminated": True, "truncated": False, "done": True,
    }  # fmt: skip


def test_the_environment_can_be_a_tool(env):
    one = manager(EnvironmentStepTool(env), env=env)
    turn = one.step(call("environment_step", action="1"))
    assert turn.step.observation == turn.tool_call.result
    assert not turn.done
    turn = one.step(call("environment_step", action=env.unwrapped.oracle_action()))
    assert (turn.reward, turn.done) == (1.0, True)
    assert one.episode_summary()["total_reward"] == 1.0
    other = gym.make(GAME)
    other.reset(seed=0)
    one.reset(other)
    assert one.step(call("environment_step", action="1")).step is not None
    assert one.env is other
    step = EnvironmentStepTool(env, name="play", description="Play on.")
    assert step.definition.schema()["function"]["description"] == "Play on."


def test_a_step_tool_refuses_a_step_after_the_episode(env):
    registry = ToolRegistry([EnvironmentStepTool(env)])
    win = env.unwrapped.oracle_action()
    assert registry.execute_tool("environment_step", action=win)[0]
    assert registry.execute_tool("environment_step", action=win) == (False, "The episode is over.")
    env.reset(seed=1)
    registry.reset()
    assert registry.execute_tool("environment_step", action="1")[0]


def test_a_react_action_that_names_no_tool_is_a_move(env):
    one = manager(env=env, parser="react")
    assert one.step("Action: double\nAction Input: 4").tool_call.result == "Observation: 8"
    assert one.step("Action: double[4]").tool_call.result == "Observation: 8"
    assert one.step("Thought: low.\nAction: 1").step.info["move"] == "1"
    assert one.step("Final Answer: 2").step.info["move"] == "2"


def test_plain_text_input_needs_a_single_parameter():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def repeat(text: str, times: int = 2) -> str:
        """Say it again."""
        return text * times

    one = manager(add, repeat, parser="react")
    result = one.step("Action: add\nAction Input: 4").tool_call.result
    assert result == "Observation: add takes a, b; give its input as a JSON object."
    assert one.step("Action: repeat\nAction Input: ab").tool_call.result == "Observation: abab"


def test_calls_are_limited():
    one = manager(FinishTool(), max_calls=2)
    two = get_parser("json").render([ToolCall("double", {"number": n}) for n in (1, 2)])
    assert one.step(call("double", number=1)).tool_call.success
    turn = one.step(two)
    assert [result.success for result in turn.tool_calls] == [True, False]
    assert "no tool calls left" in turn.tool_calls[1].result
    assert "no tool calls left" in one.step(call("double", number=1)).tool_call.result
    assert "no tool calls left" in one.step("{'tool': 'double'}").tool_call.result
    turn = one.step(call("finish", answer="4"))
    assert (turn.answer, turn.done, one.episode_summary()["answer"]) == ("4", True, "4")
    one.reset()
    assert one.step(call("double", number=1)).tool_call.success


@pytest.mark.parametrize("max_turns", [1, 3])
def test_turns_are_limited(max_turns):
    one = manager(max_turns=max_turns)
    for _ in range(max_turns):
        assert not one.done
        one.step(call("double", number=1))
    assert one.done
    summary = one.episode_summary()
    assert (summary["truncated"], summary["num_turns"]) == (True, max_turns)
    one.reset()
    assert one.episode_summary()["num_turns"] == 0
    for _ in range(max_turns):
        one.step("It is 4." if len(one.history) == max_turns - 1 else call("double", number=1))
    assert (one.done, one.episode_summary()["truncated"]) == (True, False), "an end, and no cut"
    with pytest.raises(ConfigError, match="max_turns"):
        manager(max_turns=0)
    with pytest.raises(ConfigError, match="max_calls"):
        manager(max_calls=-1)

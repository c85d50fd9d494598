"""Tools under any text environment."""

import pickle

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import llm_gym
from llm_gym.core.errors import ActionTypeError
from llm_gym.core.outcome import StopReason
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import PARSERS, get_parser
from llm_gym.tools import Tool, ToolDefinition, tool
from llm_gym.wrappers import ToolUse
from tests.tools.doubling import GAME, call, double


class Memo(Tool):
    """Remembers within an episode."""

    definition = ToolDefinition("memo", "Remember.")

    def __init__(self):
        self.calls = 0
        self.closed = False

    def execute(self, /, **params):
        self.calls += 1
        return self.calls

    def reset(self):
        self.calls = 0

    def close(self):
        self.closed = True


def using(*tools, parser="json", game=(), **settings):
    return ToolUse(gym.make(GAME, **dict(game)), [double, *tools], parser, **settings)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_tool_call_is_a_step_of_its_own(parser):
    env = using(parser=parser)
    first, _ = env.reset(seed=0)
    assert get_parser(parser).instructions(env.registry.definitions) in first
    observation, reward, terminated, truncated, info = env.step(call("double", parser, number=4))
    assert "8" in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["turn"] == 0
    assert info["move"] is None
    assert info["tool_calls"] == [
        {"name": "double", "arguments": {"number": 4}, "success": True, "result": "8"}
    ]
    assert info["tool_calls_left"] == 9
    win = get_parser(parser).render_answer(env.unwrapped.oracle_action())
    _, reward, terminated, _, info = env.step(win)
    assert (reward, terminated, info["turn"], info["tool_calls"]) == (1.0, True, 1, [])
    assert info["success"]


def test_the_game_is_the_same_with_and_without_tools():
    bare, env = gym.make(GAME), using()
    bare.reset(seed=5)
    env.reset(seed=5)
    for move in ("1", "20", "10", "no idea", "12"):
        env.step(call("double", number=1))
        plain, with_tools = bare.step(move), env.step(move)
        assert plain[:4] == with_tools[:4]
        assert plain[4] == {key: with_tools[4][key] for key in plain[4]}
        if plain[2]:
            break


def test_broken_and_failing_calls_are_answered_and_counted():
    env = using(max_calls=3)
    env.reset(seed=0)
    observation, *_, info = env.step("{'tool': 'double'}")
    assert "double quotes" in observation
    assert (info["valid_action"], info["tool_calls_left"]) == (False, 2)
    observation, *_, info = env.step(call("triple", number=1))
    assert observation == "There is no tool 'triple'. Tools: double."
    assert info["tool_calls_left"] == 1
    assert env.reset(seed=0)[1]["tool_calls_left"] == 3


FINISH = '{"tool": "finish", "args": {}}'


@pytest.mark.parametrize(
    ("tools", "settings", "fine", "bad", "why", "left"),
    [
        ((), {"max_calls": 1}, [call("double", number=1)], call("double", number=1),
         "You have no tool calls left; answer without one.\n", 0),
        (("finish",), {}, [], FINISH, "finish was not called: answer is missing.\n", 10),
    ],
    ids=["over the budget", "finish"],
)  # fmt: skip
def test_a_refused_call_costs_as_much_as_an_unusable_reply(tools, settings, fine, bad, why, left):
    env = using(*tools, game={"max_turns": 2}, **settings)
    env.reset(seed=0)
    assert all(env.step(one)[4]["turn"] == 0 for one in fine)
    observation, _, terminated, _, info = env.step(bad)
    assert observation.startswith(why)
    assert observation in env.observation_space
    assert (info["turn"], info["invalid_actions"], info["tool_calls_left"]) == (1, 1, left)
    assert not terminated
    _, _, terminated, _, info = env.step(bad)
    assert (terminated, info["stop_reason"]) == (True, StopReason.LOST), "it comes to an end"


def test_calls_outside_an_episode_are_refused():
    memo = Memo()
    env = using(memo)
    with pytest.raises(ResetNeeded):
        env.step(call("memo"))
    env.reset(seed=0)
    assert env.step(env.unwrapped.oracle_action())[2]
    with pytest.raises(ResetNeeded):
        env.step(call("memo"))
    assert memo.calls == 0
    env.reset(seed=0)
    assert env.step(call("double", number=1))[0] == "2"
    with pytest.raises(ActionTypeError):
        env.step(3)


def test_calls_are_unlimited_without_a_budget():
    env = using(max_calls=None)
    assert "You may make" not in env.reset(seed=0)[0]
    for _ in range(50):
        *_, info = env.step(call("double", number=1))
    assert info["tool_calls_left"] is None


def test_the_cost_of_calls_is_paid_and_stated_in_the_rules():
    env = using(call_cost=0.1)
    first, _ = env.reset(seed=0)
    assert "Each call costs 0.1 points." in first
    _, reward, *_, info = env.step(call("double", number=1))
    assert reward == -0.1
    assert info["reward_terms"] == {"tool_calls": -0.1}
    two = get_parser("json").render([ToolCall("double", {"number": n}) for n in (1, 2)])
    assert env.step(two)[1] == -0.2


def test_finish_plays_its_answer_without_using_up_a_call():
    env = using("finish", max_calls=0, call_cost=0.1)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(call("finish", answer=env.unwrapped.oracle_action()))
    assert (reward, terminated) == (1.0, True)
    assert info["tool_calls"][0]["name"] == "finish"
    assert sum(info["reward_terms"].values()) == reward


def test_tools_are_reset_and_closed_with_the_environment():
    memo = Memo()
    env = using(memo)
    for _ in range(2):
        env.reset(seed=0)
        assert env.step(call("memo"))[0] == "1"
        assert env.step(call("memo"))[0] == "2"
    env.close()
    assert memo.closed


def test_tool_instructions_are_beside_the_rules():
    env = using(game={"rules": "system"})
    observation, info = env.reset(seed=0)
    assert "You may call these tools" not in observation
    assert "You may call these tools" in info["system_prompt"]
    assert env.system_prompt == info["system_prompt"]
    env = using(describe=False)
    observation, _ = env.reset(seed=0)
    assert "double" not in observation
    assert env.tool_schemas[0]["function"]["name"] == "double"


def test_tools_work_in_a_vector_environment_made_from_a_pickled_spec():
    envs = llm_gym.make_vec(pickle.loads(pickle.dumps(using().spec)), 2)
    observations, _ = envs.reset(seed=0)
    assert all("You may call these tools" in one for one in observations)
    observations, *_ = envs.step([call("double", number=3), "1"])
    assert observations[0] == "6"
    envs.close()


@pytest.mark.parametrize("parser", PARSERS)
def test_hostile_replies_never_raise(parser):
    from llm_gym.evaluate.checker import HOSTILE

    env = using(parser=parser, max_calls=3)
    over = True
    for action in HOSTILE.values():
        if over:
            env.reset(seed=0)
        observation, _, terminated, truncated, _ = env.step(action)
        assert observation in env.observation_space
        over = terminated or truncated


def test_observations_stay_within_the_space():
    @tool
    def flood() -> str:
        """Write a lot."""
        return "x" * 1_000_000

    env = using(flood, max_calls=None)
    env.reset(seed=0)
    many = get_parser("json").render([ToolCall("flood")] * 32)
    observation, *_ = env.step(many)
    assert len(observation) > 100_000
    assert observation in env.observation_space

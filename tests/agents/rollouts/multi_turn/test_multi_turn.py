"""One conversation, and one episode, without a trainer."""

import gymnasium as gym
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.tools import FinishTool, MultiTurnManager, ToolRegistry
from llm_gym_agents.engines.inference import BaseInferenceEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.rollouts.multi_turn import MultiTurnInferenceEngine
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.engines.truth import log_probs
from tests.agents.rollouts.multi_turn.diary import Diary
from tests.agents.tiny import tiny_tokenizer
from tests.tools.doubling import GAME, call, double

# --- one conversation ---------------------------------------------------------------------


def test_a_conversation_goes_turn_by_turn(engine):
    talk = MultiTurnInferenceEngine(
        engine=engine, max_turns=5, system_prompt="You are a helpful assistant.", seed=1
    )
    talk.start_conversation("Initial prompt")
    first = talk.step(max_tokens=16)
    talk.observe("And then?")
    second = talk.step(max_tokens=16)
    assert talk.messages == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Initial prompt"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "And then?"},
        {"role": "assistant", "content": second},
    ]
    text = talk.format_conversation()
    assert text.startswith(
        "<bos><|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nInitial prompt<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n" in text
    again = MultiTurnInferenceEngine(engine, system_prompt="You are a helpful assistant.", seed=1)
    again.start_conversation("Initial prompt")
    assert again.step(max_tokens=16) == first


def test_calls_out_of_order_are_refused_with_a_hint(engine):
    talk = MultiTurnInferenceEngine(engine, max_turns=1)
    with pytest.raises(ConfigError, match="start_conversation"):
        talk.step()
    talk.start_conversation("Hi")
    talk.step(max_tokens=2)
    with pytest.raises(ConfigError, match="observe"):
        talk.step()
    talk.observe("Go on.")
    with pytest.raises(ConfigError, match="max_turns=1"):
        talk.step()
    talk.start_conversation("Hi again")
    talk.step(max_tokens=2)
    with pytest.raises(ConfigError, match="max_turns"):
        MultiTurnInferenceEngine(engine, max_turns=0)


def test_tools_need_a_manager_and_are_used_only_if_enabled(engine):
    with pytest.raises(ConfigError, match="tool_manager"):
        MultiTurnInferenceEngine(engine, enable_tools=True)
    manager = MultiTurnManager(ToolRegistry([]), "json")
    idle = MultiTurnInferenceEngine(engine, tool_manager=manager)
    idle.start_conversation("Hi")
    idle.step(max_tokens=2)
    assert manager.history == []


# --- one episode --------------------------------------------------------------------------


def test_an_episode_is_played_and_recorded(engine, model):
    talk = MultiTurnInferenceEngine(engine, system_prompt="Be brief.", seed=3)
    env = Diary(length=3)
    episode = talk.run_episode(environment=env, initial_prompt="Play.", max_turns=5, seed=11)
    assert episode.actions == env.actions
    assert episode.states == ["I am 11.", *(f"11 received {turn}." for turn in (1, 2, 3))]
    assert episode.rewards == [1, 2, 3]
    assert episode.terminated == [False, False, True]
    assert episode.stop_reason is StopReason.FINISHED
    assert episode.messages[:2] == [
        {"role": "system", "content": "Be brief.\n\nYou write a diary."},
        {"role": "user", "content": "Play.\n\nI am 11."},
    ]
    assert not env.closed
    episode.to_json()
    tokens = episode.tokens
    wanted = log_probs(model, tokens.ids[:1], tokens.ids[1:], temperature=0.7)
    for found, expected in zip(tokens.log_probs[1:], wanted, strict=True):
        assert found != found or found == pytest.approx(expected, abs=1e-5)
    sampled = [at for at, found in enumerate(tokens.log_probs) if found == found]
    assert len(sampled) >= 3


def test_an_episode_that_does_not_end_is_truncated(engine):
    talk = MultiTurnInferenceEngine(engine, max_turns=2)
    episode = talk.run_episode(Diary(length=9), "Play.", max_tokens=3)
    assert episode.num_turns == 2
    assert (episode.terminated, episode.truncated) == ([False, False], [False, True])
    assert episode.stop_reason is StopReason.MAX_STEPS


def test_an_episode_that_outgrows_the_context_is_truncated(model):
    tokenizer = tiny_tokenizer()
    small = TransformersEngine(model, tokenizer=tokenizer, context_length=150)
    talk = MultiTurnInferenceEngine(BaseInferenceEngine(small, tokenizer), max_turns=9)
    episode = talk.run_episode(Diary(length=9), max_tokens=3)
    assert 0 < episode.num_turns < 9
    assert episode.stop_reason is StopReason.CONTEXT
    assert episode.truncated[-1]
    none = talk.run_episode(Diary(length=9), "x" * 200)
    assert (none.num_turns, none.stop_reason) == (0, StopReason.CONTEXT)


@pytest.fixture
def script(monkeypatch):
    """Return a function that scripts the replies of the model, one after the other."""

    def begin(*replies):
        words = iter(replies)
        monkeypatch.setattr(ChatFormat, "text_of", lambda self, ids: next(words))

    return begin


def talking(engine, *tools, env=None, **settings):
    manager = MultiTurnManager(ToolRegistry([double, *tools]), "json", env, **settings)
    return MultiTurnInferenceEngine(engine, tool_manager=manager, enable_tools=True, seed=1)


CALL = call("double", number=4)


def user_messages(talk):
    return [one["content"] for one in talk.messages if one["role"] == "user"]


def test_a_conversation_goes_on_from_the_result(engine, script):
    script(CALL, "It is 8.", CALL, "Still 8.")
    talk = talking(engine)
    talk.start_conversation("Twice 4?")
    assert talk.step(max_tokens=2) == CALL
    assert user_messages(talk) == ["Twice 4?", "8"]
    assert talk.step(max_tokens=2) == "It is 8."
    assert talk.tool_manager.done
    talk.observe("Sure?")
    talk.step(max_tokens=2)
    assert user_messages(talk) == ["Twice 4?", "8", "Sure?", "8"]
    assert talk.tool_manager.history[0].observation == "Sure?"


def test_an_episode_has_tool_turns_and_moves(engine, script):
    env = gym.make(GAME, low=1, high=1000)
    script(CALL, "1", "{'tool': 'double'}", "no idea")
    episode = talking(engine).run_episode(env, max_turns=4, max_tokens=2, seed=0)
    assert episode.rewards == [0.0] * 4
    assert episode.states[1] == "8"
    assert episode.states[2].startswith("The number is higher than 1.")
    assert "double quotes" in episode.states[3]
    assert [info.get("turn") for info in episode.infos] == [None, 1, None, 2]
    assert episode.extra["tools"]["num_turns"] == 4
    assert episode.extra["tools"]["tool_calls"] == {"double": 1}
    episode.to_json()


def test_the_finish_tool_plays_its_answer(engine, script):
    env = gym.make(GAME)
    env.reset(seed=0)
    script(CALL, call("finish", answer=env.unwrapped.oracle_action()))
    episode = talking(engine, FinishTool()).run_episode(env, seed=0, max_tokens=2)
    assert episode.rewards == [0.0, 1.0]
    assert episode.infos[1]["tool_calls"][0]["name"] == "finish"


def test_the_managers_limits_cut_an_episode(engine, script):
    script(*[CALL] * 9)
    episode = talking(engine, max_turns=3).run_episode(GAME, max_turns=9, max_tokens=2)
    assert (episode.num_turns, episode.stop_reason) == (3, StopReason.MAX_STEPS)
    assert (episode.terminated[-1], episode.truncated[-1]) == (False, True)


def test_one_manager_plays_one_episode_after_the_other(engine, script):
    script(CALL, "1", CALL, "1")
    talk = talking(engine, max_calls=1)
    for _ in range(2):
        episode = talk.run_episode(GAME, max_turns=2, max_tokens=2, seed=0)
        assert episode.states[1] == "8"
        assert episode.extra["tools"]["num_turns"] == 2

"""Conversations and episodes without a trainer."""

import threading
from types import SimpleNamespace

import gymnasium as gym
import pytest

from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment, SimpleGameEnvironment
from llm_gym_agents.compat.harness import MultiTurnChatHarness
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.compat.multi_turn import MultiTurnInferenceEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import log_probs
from tests.agents.tiny import tiny_model, tiny_tokenizer


class Diary(gym.Env):
    """Says who it is and what it was told; ends after ``length`` turns."""

    observation_space = action_space = AnyText(10_000)
    system_prompt = "You write a diary."

    def __init__(self, length=3):
        self.length = length
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.told = seed, []
        return f"I am {seed}.", {}

    def step(self, action):
        self.told.append(action)
        turn = len(self.told)
        return f"{self.seed} was told {turn}.", float(turn), turn == self.length, False, {}

    def close(self):
        self.closed = True


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture
def engine(model):
    tokenizer = tiny_tokenizer()
    return BaseInferenceEngine(TransformersEngine(model, tokenizer=tokenizer), tokenizer)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that notes how many requests are handed to the engine at a time."""
    counts = []
    submit = TransformersEngine.submit
    monkeypatch.setattr(
        TransformersEngine,
        "submit",
        lambda self, rs: counts.append(len(rs)) or submit(self, rs),
    )
    return counts


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


def test_a_conversation_that_is_out_of_order_says_what_to_do(engine):
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
    with pytest.raises(ConfigError, match="max_turns must be at least 1"):
        MultiTurnInferenceEngine(engine, max_turns=0)


class Abacus:
    """A tool manager: every reply calls a tool until the third."""

    def __init__(self):
        self.seen = []

    def step(self, model_output, observation):
        self.seen.append((model_output, observation))
        call = SimpleNamespace(result=f"result {len(self.seen)}")
        return SimpleNamespace(tool_call=call if len(self.seen) < 3 else None)


def test_tools_answer_the_replies_that_call_them(engine):
    tools = Abacus()
    talk = MultiTurnInferenceEngine(engine, tool_manager=tools, enable_tools=True)
    talk.start_conversation("Count.")
    replies = [talk.step(max_tokens=4) for _ in range(3)]
    assert tools.seen == list(zip(replies, ["Count.", "result 1", "result 2"], strict=True))
    assert [one["content"] for one in talk.messages if one["role"] == "user"] == [
        "Count.", "result 1", "result 2",
    ]  # fmt: skip


def test_a_tool_turn_does_not_reach_the_environment(engine):
    tools = Abacus()
    env = Diary(length=2)
    talk = MultiTurnInferenceEngine(engine, tool_manager=tools, enable_tools=True)
    episode = talk.run_episode(env, "Begin.", max_turns=9, max_tokens=4)
    assert episode.num_turns == 4
    assert episode.rewards == [0, 0, 1, 2]
    assert env.told == episode.actions[2:]
    assert episode.states[1:3] == ["result 1", "result 2"]


def test_tools_need_a_manager(engine):
    with pytest.raises(ConfigError, match="enable_tools=True needs a tool_manager"):
        MultiTurnInferenceEngine(engine, enable_tools=True)
    idle = MultiTurnInferenceEngine(engine, tool_manager=Abacus())
    idle.start_conversation("Hi")
    idle.step(max_tokens=2)
    assert idle.tool_manager.seen == []


# --- one episode --------------------------------------------------------------------------


def test_an_episode_is_played_and_recorded(engine, model):
    talk = MultiTurnInferenceEngine(engine, system_prompt="Be brief.", seed=3)
    env = Diary(length=3)
    episode = talk.run_episode(environment=env, initial_prompt="Play.", max_turns=5, seed=11)
    assert episode.actions == env.told
    assert episode.states == ["I am 11.", *(f"11 was told {turn}." for turn in (1, 2, 3))]
    assert episode.rewards == [1, 2, 3]
    assert episode.terminated == [False, False, True]
    assert episode.stop_reason is StopReason.FINISHED
    assert episode.messages[:2] == [
        {"role": "system", "content": "Be brief.\n\nYou write a diary."},
        {"role": "user", "content": "Play.\n\nI am 11."},
    ]
    assert not env.closed
    episode.check()
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


@pytest.mark.parametrize(
    "environment",
    [
        "llm_gym/GuessTheNumber-v0",
        gym.spec("llm_gym/GuessTheNumber-v0"),
        lambda: gym.make("llm_gym/GuessTheNumber-v0"),
        SimpleGameEnvironment,
        SimpleGameEnvironment({"max_steps": 4}),
        gym.make("llm_gym/GuessTheNumber-v0"),
        Diary,
    ],
)
def test_environments_come_in_every_form(engine, environment):
    harness = MultiTurnChatHarness(engine, environment, max_turns=3, max_tokens=4)
    episode = harness.run_episode("Begin.")
    assert 1 <= episode["num_turns"] <= 3
    episodes = harness.run_batch(["Begin."] * 3)
    assert len(episodes) == 3
    assert len({one["record"].seed for one in episodes}) == 3


# --- many episodes ------------------------------------------------------------------------


def test_an_episode_has_the_keys_of_a_trajectory(engine):
    episode = MultiTurnChatHarness(engine, Diary(2), max_turns=5, seed=4).run_episode("Begin.")
    assert episode["prompts"] == ["Begin."]
    assert episode["states"] == ["I am 4."]
    assert episode["observations"] == ["4 was told 1.", "4 was told 2."]
    assert episode["rewards"] == [1.0, 2.0]
    assert episode["dones"] == [False, True]
    assert episode["infos"] == [{}, {}]
    assert episode["total_reward"] == 3.0
    assert episode["num_turns"] == 2
    assert len(episode["actions"]) == 2


def test_a_batch_advances_together(engine, model, calls):
    lengths = iter([1, 3, 2, 3])
    made = []

    def make():
        made.append(Diary(next(lengths)))
        return made[-1]

    harness = MultiTurnChatHarness(engine, make, max_turns=5, max_tokens=6, seed=20)
    episodes = harness.run_batch(["one", "two", "three", "four"])
    assert [count for count in calls if count] == [4, 3, 2]
    assert [episode["num_turns"] for episode in episodes] == [1, 3, 2, 3]
    for at, episode in enumerate(episodes):
        assert episode["states"] == [f"I am {20 + at}."]
        assert episode["actions"] == made[at].told
        assert episode["messages"][1]["content"].endswith(f"\n\nI am {20 + at}.")
        tokens = episode["record"].tokens
        wanted = log_probs(model, tokens.ids[:1], tokens.ids[1:], temperature=0.7)
        assert all(
            found != found or found == pytest.approx(expected, abs=1e-5)
            for found, expected in zip(tokens.log_probs[1:], wanted, strict=True)
        )
    assert all(env.closed for env in made)


def test_a_seed_reproduces_a_batch(engine):
    def run(seed):
        harness = MultiTurnChatHarness(engine, Diary, max_turns=3, max_tokens=6, seed=seed)
        return [episode["actions"] for episode in harness.run_batch(["go"] * 4)]

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert run(None) != run(None)


def test_an_object_is_copied_for_a_batch(engine):
    env = Diary(length=2)
    env.reset(seed=0)
    episodes = MultiTurnChatHarness(engine, env, max_tokens=3).run_batch(["a", "b"])
    assert [episode["num_turns"] for episode in episodes] == [2, 2]
    assert env.told == []
    assert not env.closed
    env.lock = threading.Lock()  # cannot be copied
    with pytest.raises(ConfigError, match="pass a function that makes one"):
        MultiTurnChatHarness(engine, env).run_batch(["a", "b"])


def test_what_is_no_text_environment_is_refused(engine):
    with pytest.raises(ConfigError, match=r"got 3 \(int\)"):
        MultiTurnChatHarness(engine, 3).run_episode("Begin.")
    with pytest.raises(ConfigError, match="max_turns"):
        MultiTurnChatHarness(engine, Diary, max_turns=0)


def test_an_environment_without_text_is_played_in_words(engine):
    harness = MultiTurnChatHarness(engine, "CartPole-v1", max_turns=1, max_tokens=3)
    assert "Cart position" in harness.run_episode("Begin.")["states"][0]


def test_sampling_settings_reach_the_engine(engine):
    def run(**settings):
        harness = MultiTurnChatHarness(
            engine, Diary, max_turns=1, seed=1, system_prompt="S.", **settings
        )
        record = harness.run_episode("x")["record"]
        return record.actions, sum(lp == lp for lp in record.tokens.log_probs)

    assert run(max_tokens=3)[1] <= 3 < run(max_tokens=40)[1]
    greedy = run(max_tokens=9, temperature=0)
    assert greedy == run(max_tokens=9, temperature=1.5, top_p=1e-6)
    assert greedy != run(max_tokens=9, temperature=1.5, top_p=1.0)


class Forgetful(BaseEnvironment):
    """In the four-value shape, with a prompt prefix."""

    def reset(self):
        return "Start."

    def step(self, action):
        return "Again.", 0.5, False, {}

    def get_state_description(self):
        return "Again."

    def get_prompt_prefix(self):
        return "Old rules."


def test_environments_in_the_old_shape_are_adapted(engine):
    harness = MultiTurnChatHarness(engine, Forgetful({"max_steps": 3}), max_turns=9, max_tokens=2)
    episode = harness.run_episode("Begin.")
    assert episode["messages"][0] == {"role": "system", "content": "Old rules."}
    assert episode["total_reward"] == 1.5
    assert episode["stop_reason"] is StopReason.MAX_STEPS

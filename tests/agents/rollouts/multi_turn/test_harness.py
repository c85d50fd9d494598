"""Many episodes without a trainer."""

import gymnasium as gym
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym_agents.rollouts.multi_turn import MultiTurnChatHarness
from tests.agents.engines.truth import log_probs
from tests.agents.rollouts.multi_turn.diary import Diary


@pytest.mark.parametrize(
    "environment",
    [
        "llm_gym/GuessTheNumber-v0",
        SimpleGameEnvironment({"max_steps": 4}),
        gym.make("llm_gym/GuessTheNumber-v0"),
        "CartPole-v1",
        Diary,
    ],
)
def test_environments_come_in_every_form(engine, environment):
    harness = MultiTurnChatHarness(engine, environment, max_turns=3, max_tokens=4)
    episode = harness.run_episode("Begin.")
    assert 1 <= episode["num_turns"] <= 3
    assert environment != "CartPole-v1" or "Cart position" in episode["states"][0]
    episodes = harness.run_batch(["Begin."] * 3)
    assert len(episodes) == 3
    assert len({one["record"].seed for one in episodes}) == 3


def test_an_episode_has_the_keys_of_a_trajectory(engine):
    harness = MultiTurnChatHarness(engine, Diary(2), max_turns=5, max_tokens=9, seed=4)
    episode = harness.run_episode("Begin.")
    assert episode["prompts"] == ["Begin."]
    assert episode["states"] == ["I am 4."]
    assert episode["observations"] == ["4 received 1.", "4 received 2."]
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
        assert episode["actions"] == made[at].actions
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


def test_an_environment_object_is_copied_for_a_batch(engine):
    env = Diary(length=2)
    env.reset(seed=0)
    episodes = MultiTurnChatHarness(engine, env, max_tokens=3).run_batch(["a", "b"])
    assert [episode["num_turns"] for episode in episodes] == [2, 2]
    assert env.actions == []
    assert not env.closed


def test_a_non_environment_and_zero_turns_are_refused(engine):
    with pytest.raises(ConfigError, match="int"):
        MultiTurnChatHarness(engine, 3).run_episode("Begin.")
    with pytest.raises(ConfigError, match="max_turns"):
        MultiTurnChatHarness(engine, Diary, max_turns=0)


def test_sampling_settings_reach_the_engine(engine):
    def run(**settings):
        harness = MultiTurnChatHarness(
            engine, Diary, max_turns=1, seed=1, system_prompt="S.", **settings
        )
        record = harness.run_episode("x")["record"]
        return record.actions, sum(lp == lp for lp in record.tokens.log_probs)

    assert run(max_tokens=3)[1] <= 3 < run(max_tokens=12)[1]
    greedy = run(max_tokens=9, temperature=0)
    assert greedy == run(max_tokens=9, temperature=1.5, top_p=1e-6)
    assert greedy != run(max_tokens=9, temperature=1.5, top_p=1.0)

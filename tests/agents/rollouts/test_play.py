"""A model plays: tokens in, tokens out, through pool, policy and TorchRL's collector."""

import itertools

import gymnasium as gym
import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from tests.agents.scripted import ScriptedEngine
from tests.agents.tiny import tiny_model, tiny_policy
from tests.matrix import some_of


class Diary(gym.Env):
    """Records its actions; lasts ``seed % 3 + 1`` turns, cut after that if seed is odd."""

    observation_space = action_space = AnyText(10_000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.actions = seed, []
        return f"I am {seed}.", {"system_prompt": f"You talk to {seed}."}

    def step(self, action):
        self.actions.append(action)
        over = len(self.actions) == self.seed % 3 + 1
        obs = f"{self.seed} received {len(self.actions)}."
        return (
            obs,
            float(len(self.actions)),
            over and self.seed % 2 == 0,
            over and self.seed % 2,
            {},
        )


def make(env=Diary, rows=3, family="llama", context="history", length=None, **sampling):
    engine = TransformersEngine(tiny_model(family), context_length=length)
    sampling = Sampling(**{"max_tokens": 12, **sampling})
    policy = tiny_policy(engine, sampling=sampling, context=context, run_seed=7)
    return EpisodeCollector(TextEnvPool(env, rows), policy)


def tasks(seeds):
    return [EpisodeTask(100 + seed, seed, seed) for seed in seeds]


@pytest.mark.parametrize(
    ("context", "family"), some_of(["history", "observation"], ["llama", "gpt2", "qwen2"])
)
def test_log_probs_of_engine_and_trainer_agree(context, family):
    collector = make(family=family, context=context)
    data = assemble(collector.collect(tasks(range(8))))
    model = PolicyValueModel(collector.policy.engine.model)
    with torch.no_grad():
        inputs = (data.ids_S, data.sequence_lengths_Q, data.position_T, data.token_T)
        trained = model(*inputs).log_prob_T
    torch.testing.assert_close(trained, data.sampler_log_prob_T, atol=1e-5, rtol=0)


def test_a_batch_is_the_named_episodes_in_order_with_rewards_on_last_tokens():
    rollout_ = make(rows=2).collect(tasks([5, 3, 4, 0, 8]))
    data = assemble(rollout_)
    assert [episode.seed for episode in rollout_.episodes] == [0, 3, 4, 5, 8]
    assert data.episode_E.tolist() == [100, 103, 104, 105, 108]
    turns = [seed % 3 + 1 for seed in (0, 3, 4, 5, 8)]
    assert int(data.turn_ends_T.sum()) == sum(turns)
    rewards = list(itertools.chain.from_iterable(range(1, n + 1) for n in turns))
    assert data.reward_T[data.turn_ends_T].tolist() == [float(r) for r in rewards]
    assert not data.reward_T[~data.turn_ends_T].any()


def test_an_episode_that_outgrows_the_context_is_cut_not_shortened():
    data = make(rows=1, length=150, max_tokens=20)
    rollout_ = data.collect(tasks([5]))
    episode = rollout_.episodes[0]
    assert episode.stop_reason is StopReason.CONTEXT
    assert 1 <= episode.num_turns < 3
    packed = assemble(rollout_)
    assert int(packed.sequence_lengths_Q.max()) <= 150
    assert packed.terminated_E.tolist() == [True], "the model filled it: nothing is to come"


def test_a_prompt_that_does_not_fit_is_unplayed_and_odd_tasks_are_refused():
    rollout_ = make(rows=2, length=30).collect(tasks([0, 1]))
    assert rollout_.episodes == []
    assert [episode.stop_reason for episode in rollout_.unplayed] == [StopReason.CONTEXT] * 2
    with pytest.raises(ConfigError, match="context"):
        make(context="all")
    with pytest.raises(ConfigError, match="id"):
        make().collect([EpisodeTask(1, 0), EpisodeTask(1, 1)])


def test_rollout_reports_success_with_its_interval_and_writes_records(tmp_path):
    policy = make().policy
    path = tmp_path / "episodes.jsonl"
    how = {"num_envs": 4, "records": str(path), "env_kwargs": {"rules": "system"}}
    result = rollout("llm_gym/Memory-v0", policy, 12, **how)
    low, high = result.interval
    assert low <= result.success <= high
    assert len(path.read_text().splitlines()) == 12
    assert result.summary()["episodes"] == 12
    assert result.normalised is not None
    assert "success" in str(result)


@pytest.mark.parametrize("context", ["history", "observation"])
def test_every_turn_of_every_episode_is_sampled_with_a_seed_of_its_own(context):
    """The seed depends neither on the order of episodes nor on those played beside it."""
    seeds = []
    for rows, numbers, run in ((3, range(8), 7), (1, reversed(range(8)), 7), (3, range(8), 8)):
        sampled = {}

        def say(request, sampled=sampled):
            sampled.setdefault(request.key, []).append(request.seed)
            return list(b"ok")

        policy = tiny_policy(ScriptedEngine(say=say), context=context, run_seed=run)
        EpisodeCollector(TextEnvPool(Diary, rows), policy).collect(tasks(numbers))
        seeds.append(sampled)
    assert seeds[0] == seeds[1] != seeds[2]
    assert [len(seeds[0][100 + seed]) for seed in range(8)] == [1, 2, 3, 1, 2, 3, 1, 2]
    every = [seed for own in seeds[0].values() for seed in own]
    assert len(set(every)) == len(every)

"""A served model plays environments."""

import pytest

from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat

ENV = "llm_gym/GuessTheNumberEasy-v0"


def play(engine, *, sync_replies, episodes=24, envs=8):
    engine._vllm.ask("reset_prefix_cache")
    chat = ChatFormat.from_tokenizer(engine.tokenizer)
    policy = LLMPolicy(engine, chat, sampling=Sampling(max_tokens=6), sync_replies=sync_replies)
    collector = EpisodeCollector(TextEnvPool(ENV, envs, rules="system"), policy)
    try:
        return collector.collect([EpisodeTask(at, at) for at in range(episodes)])
    finally:
        collector.close()


def test_with_a_barrier_two_runs_are_equal_to_the_bit(engine):
    one, two = play(engine, sync_replies=True), play(engine, sync_replies=True)
    assert assemble(one).sampler_log_prob_T.tolist() == assemble(two).sampler_log_prob_T.tolist()
    assert [e.actions for e in one.episodes] == [e.actions for e in two.episodes]


def test_without_a_barrier_the_same_named_episodes_are_played(engine):
    waiting, flowing = play(engine, sync_replies=True), play(engine, sync_replies=False)
    assert [e.episode_id for e in flowing.episodes] == list(range(24))
    assert [e.actions for e in flowing.episodes] == [e.actions for e in waiting.episodes]
    assert assemble(flowing).sampler_log_prob_T.tolist() == pytest.approx(
        assemble(waiting).sampler_log_prob_T.tolist(), abs=1e-4
    )


def test_a_model_constrained_to_legal_moves_never_errs(engine):
    chat = ChatFormat.from_tokenizer(engine.tokenizer)
    policy = LLMPolicy(engine, chat, sampling=Sampling(max_tokens=6))
    free = rollout(ENV, policy, 8, env_kwargs={"rules": "system"})
    held = rollout(ENV, policy, 8, env_kwargs={"rules": "system"}, constrained=True)
    assert free.invalid > 0.5
    assert held.invalid == 0.0

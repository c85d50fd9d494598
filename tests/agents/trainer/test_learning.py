"""Everything that can be chosen to learn with learns a game in seconds, and for the right reason.

A small model first imitates random moves, so that it plays at chance; a few iterations must then
make it good. The same run with its advantages dealt out to other tokens must stay at chance:
whatever it learned then, it did not learn from rewards.
"""

import copy
import functools

import pytest
import torch

from llm_gym_agents import algo
from llm_gym_agents.run import metrics
from tests.agents.config.effect_run import configured, settings
from tests.agents.players import player_at_chance
from tests.agents.small_run import trained

ECHO, COUNT, MEMORY = (f"llm_gym/{name}-v0" for name in ("Echo", "Count", "Memory"))
ONE_WORD = {"words": 6, "max_turns": 1}
CHANCE = 1 / ONE_WORD["words"]
LEARNED, UNLEARNED = 0.45, 0.3
"""Means over the last iterations; runs that learn reach 0.6 to 0.95, controls 0.05 to 0.2."""


def train(folder, env_id=ECHO, env=ONE_WORD, *, layers=1, iterations=8, reward_fn=None, **changed):
    """Train a player that begins at chance; return the metrics of every iteration."""
    lm, tokenizer = player_at_chance(env_id, layers=layers, **env)
    context, critic = changed.pop("context", "observation"), changed.pop("critic", "shared")
    spec = algo.get_advantage(changed.get("adv_estimator", "gae"))
    given = settings(
        training__num_iters_per_epoch=iterations, training__batch_size=128,
        training__mini_batch_size=64, training__group_size=4 if spec.needs_groups else 1,
        training__ppo_epochs=4, training__learning_rate=4e-3, training__seed=1,
        inference__num_envs=128, inference__context=context, model__critic=critic,
        environment__env_id=env_id, environment__env_kwargs={"rules": "system", **env},
    )  # fmt: skip
    given |= {f"training.{name}": each for name, each in changed.items()}
    whole = {"model": copy.deepcopy(lm), "tokenizer": tokenizer}
    return trained(configured(given, folder), reward_fn=reward_fn, **whole).metrics_history


def at_the_end(history, name=metrics.RETURN, last=3):
    return sum(row[name] for row in history[-last:]) / last


LOSSES = {
    "gspo": {"adv_estimator": "reinforce_plus_plus"},
    # With the steps that suit clipped losses these stopped at 0.3 to 0.6.
    "cispo": {"learning_rate": 2e-3, "entropy_coef": 0.03},
}


ESTIMATORS = [
    pytest.param(name, marks=() if name == "gae" else pytest.mark.slow)
    for name in algo.ADVANTAGES.names()
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns(estimator, tmp_path):
    history = train(tmp_path, adv_estimator=estimator, iterations=6 if estimator == "gae" else 8)
    assert history[0][metrics.RETURN] < 2 * CHANCE
    assert at_the_end(history) > LEARNED


@pytest.fixture
def shuffled(monkeypatch):
    """Register an estimator's twin that deals its advantages out to other tokens."""
    monkeypatch.setattr(algo.ADVANTAGES, "_specs", dict(algo.ADVANTAGES._specs))

    def register(name):
        spec = algo.get_advantage(name)

        @functools.wraps(spec.function)
        def deal_out(stream, **settings):
            advantages_T, returns_T = spec.function(stream, **settings)
            return algo.Advantages(advantages_T[torch.randperm(len(advantages_T))], returns_T)

        algo.register_advantage(
            f"shuffled_{name}",
            needs_critic=spec.needs_critic,
            needs_groups=spec.needs_groups,
            needs_states=spec.needs_states,
        )(deal_out)
        return f"shuffled_{name}"

    return register


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_estimator_learns_from_advantages_of_other_tokens(estimator, shuffled, tmp_path):
    history = train(
        tmp_path, adv_estimator=shuffled(estimator), iterations=6 if estimator == "gae" else 8
    )
    assert at_the_end(history) < UNLEARNED


@pytest.mark.slow
@pytest.mark.parametrize("loss", [name for name in algo.POLICY_LOSSES.names() if name != "ppo"])
def test_every_policy_loss_learns(loss, tmp_path):
    gentle = {"ppo_epochs": 2, "mini_batch_size": 32, "iterations": 12}
    history = train(tmp_path, policy_loss=loss, **gentle | LOSSES.get(loss, {}))
    assert at_the_end(history) > LEARNED


@pytest.mark.slow
def test_a_separate_critic_learns(tmp_path):
    history = train(tmp_path, critic="separate")
    assert at_the_end(history) > LEARNED


@pytest.mark.slow
def test_a_word_is_remembered_over_turns_from_a_reward_at_the_end(tmp_path):
    env = {"words": 4, "delay": 1}
    history = train(tmp_path, MEMORY, env, layers=2, context="history", iterations=12)
    assert history[0][metrics.RETURN] < 0.45
    assert at_the_end(history) > 0.7


@pytest.mark.slow
def test_history_teaches_what_an_observation_alone_cannot(tmp_path):
    env = {"numbers": 4, "max_turns": 3}
    with_history = train(tmp_path / "with_history", COUNT, env, context="history", iterations=9)
    without = train(tmp_path / "without", COUNT, env, context="observation", iterations=9)
    assert at_the_end(with_history, metrics.TRAIN_SUCCESS) > 0.5
    assert at_the_end(without, metrics.TRAIN_SUCCESS) < 0.25


@pytest.mark.slow
def test_rewards_in_their_turn_teach_more_than_their_sum_at_the_end(tmp_path):
    env = {"words": 6, "max_turns": 4}
    small = {"gamma": 0.0, "batch_size": 32, "mini_batch_size": 16}
    in_turn = train(tmp_path / "turn", env=env, **small)
    at_end = train(tmp_path / "end", env=env, reward_fn=lambda e: e.total_reward, **small)
    assert at_the_end(in_turn) > LEARNED
    assert at_the_end(at_end) < at_the_end(in_turn) - 0.2

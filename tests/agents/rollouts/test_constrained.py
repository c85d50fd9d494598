"""Constrained decoding: the pattern of usable actions goes from the environment to the engine."""

import re

import gymnasium as gym
import pytest
from torchrl.envs.utils import check_env_specs

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from tests.agents.rollouts.test_play import Diary, tasks
from tests.agents.scripted import ScriptedEngine
from tests.agents.tiny import tiny_policy
from tests.matrix import some_of

HELD = {"constrained": True, "env_kwargs": {"rules": "system"}}
GAME, GUESS = "llm_gym/TextGameEasy-v0", "llm_gym/GuessTheNumber-v0"


class Held(ScriptedEngine):
    """Plays random usable actions, and knows from a twin of each episode which those are."""

    def __init__(self, env_id, **how):
        super().__init__(say=self._play, **how)
        self.env_id, self.twins, self.patterns = env_id, {}, []

    def _play(self, request):
        seed = request.key
        if seed not in self.twins:
            self.twins[seed] = gym.make(self.env_id, rules="system").unwrapped
            self.twins[seed].reset(seed=seed)
        twin, pattern = self.twins[seed], request.sampling.pattern
        assert pattern == twin.action_pattern()
        action = twin.random_action()
        assert re.fullmatch(pattern, action)
        twin.step(action)
        self.patterns.append(pattern)
        return list(action.encode())


@pytest.mark.parametrize(
    ("env_id", "sync_replies"), some_of([GAME, GUESS, "llm_gym/Echo-v0"], [True, False])
)
def test_each_request_has_the_pattern_of_its_environment_now(env_id, sync_replies):
    engine = Held(env_id, ready=lambda running: running[-1:])
    policy = tiny_policy(engine, sync_replies=sync_replies)
    result = rollout(env_id, policy, 12, num_envs=5, **HELD)
    assert len(result.episodes) == 12
    assert result.invalid == 0.0
    if env_id == GAME:
        assert len(set(engine.patterns)) > 10, "they change with what can be done"


def test_an_unconstrained_request_has_only_the_pattern_of_its_sampling():
    seen = []
    engine = ScriptedEngine(say=lambda request: seen.append(request.sampling.pattern) or [65])
    rollout(GUESS, tiny_policy(engine), 2)
    assert set(seen) == {None}
    seen.clear()
    rollout(GUESS, tiny_policy(engine, sampling=Sampling(pattern="[0-9]+")), 2)
    assert set(seen) == {"[0-9]+"}


def test_the_pool_has_patterns_only_if_requested():
    check_env_specs(TextEnvPool(GUESS, 3, patterns=True))
    assert "pattern" not in TextEnvPool(GUESS, 3).reset().keys()  # noqa: SIM118 - a TensorDict


def test_a_gymnasium_environment_in_text_has_patterns():
    seen = []

    def say(request):
        seen.append(request.sampling.pattern)
        return list(b"push left")

    rollout("CartPole-v1", tiny_policy(ScriptedEngine(say=say)), 1, constrained=True)
    assert all(pattern and re.fullmatch(pattern, "push left") for pattern in seen), seen[0]


def test_an_environment_without_patterns_is_refused():
    collector = EpisodeCollector(
        TextEnvPool(Diary, 2, patterns=True), tiny_policy(ScriptedEngine())
    )
    with pytest.raises(ConfigError, match="action_pattern"):
        collector.collect(tasks([0, 1]))


def test_the_transformers_engine_refuses_a_pattern():
    policy = tiny_policy(sampling=Sampling(max_tokens=2))
    engine = policy.engine
    with pytest.raises(ConfigError, match="backend"):
        engine.submit([Request([1]), Request([1, 2], Sampling(pattern="a+"))])
    assert engine.running == 0
    with pytest.raises(ConfigError, match="backend"):
        rollout(GUESS, policy, 2, constrained=True)
    assert engine.running == 0
    assert len(rollout(GUESS, policy, 2).episodes) == 2


@pytest.mark.slow
def test_patterns_come_out_of_worker_processes():
    engine = Held("llm_gym/Echo-v0")
    result = rollout("llm_gym/Echo-v0", tiny_policy(engine), 6, num_envs=4, workers=2, **HELD)
    assert result.invalid == 0.0
    assert engine.patterns

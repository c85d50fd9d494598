"""``Sampler``: named tasks in, plain data out, with weights of the version that was asked for."""

import pickle

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.small_run import NeverBegins, Odd
from tests.agents.tiny import tiny_model, tiny_tokenizer


class Other(Odd):
    def reset(self, *, seed=None, options=None):
        return "held out", {}


def make(env=Odd, held_out=None, rows=2):
    engine = TransformersEngine(tiny_model())
    chat = ChatFormat.from_tokenizer(tiny_tokenizer())
    policy = LLMPolicy(engine, chat, sampling=Sampling(max_tokens=4), run_seed=3)
    other = None if held_out is None else TextEnvPool(held_out, rows)
    return Sampler(policy, TextEnvPool(env, rows), other)


def tasks(count):
    return [EpisodeTask(at, at, at) for at in range(count)]


def test_weights_of_another_version_play_nothing():
    sampler = make()
    assert len(sampler.play(tasks(3), version=0).episodes) == 3
    with pytest.raises(EngineError, match="version 4"):
        sampler.play(tasks(3), version=4)
    sampler.engine.update_weights(sampler.engine.model.named_parameters(), 4)
    turns = [turn for own in sampler.play(tasks(3), version=4).turns for turn in own]
    assert {turn.version for turn in turns} == {4}
    sampler.close()


def test_what_comes_back_survives_a_pickle_and_makes_the_same_batch():
    sampler = make()
    rollout = sampler.play(pickle.loads(pickle.dumps(tasks(5))))
    again = pickle.loads(pickle.dumps(rollout))
    assert assemble(again).ids_S.equal(assemble(rollout).ids_S)
    assert again.tokens == rollout.tokens > 0
    sampler.close()


def test_greedy_play_is_greedy_for_that_call_only():
    sampler = make()
    sampled = [e.actions for e in sampler.play(tasks(6)).episodes]
    greedy = [e.actions for e in sampler.play(tasks(6), greedy=True).episodes]
    assert len({str(actions) for actions in greedy}) == 1, "one start, one most likely reply"
    assert [e.actions for e in sampler.play(tasks(6)).episodes] == sampled != greedy
    sampler.close()


def test_held_out_environments_are_played_only_when_asked_for():
    sampler = make(held_out=Other)
    assert {e.states[0] for e in sampler.play(tasks(3)).episodes} == {"?"}
    assert {e.states[0] for e in sampler.play(tasks(3), held_out=True).episodes} == {"held out"}
    assert not sampler.has_splits, "what is held out is in an environment of its own"
    sampler.close()


def test_failures_are_those_of_the_call():
    sampler = make(NeverBegins)
    for count in (3, 2):
        rollout = sampler.play(tasks(count))
        assert rollout.episodes == []
        assert [episode.episode_id for episode in rollout.all_episodes] == list(range(count))
        assert len(rollout.failures) == count
        assert "no such level" in rollout.failures[0]
    sampler.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"split": "tset"}, "split must be one of train, dev, test or None, got 'tset'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"episodes": "3"}, "episodes must be a whole number of at least 1, got '3'"),
        ({"episodes": 2.5}, "episodes must be a whole number of at least 1, got 2.5"),
        ({"num_envs": 0}, "num_envs must be a whole number of at least 1, got 0"),
    ],
)
def test_a_typing_error_does_not_come_out_as_a_success_of_0(given, says):
    with pytest.raises(ConfigError) as caught:
        rollout("llm_gym/Echo-v0", "a model that nobody has loaded yet", **given)
    assert str(caught.value) == says


class Judged(Odd):
    """Somebody else's environment, with splits of its own."""

    def reset(self, *, seed=None, options=None):
        return f"Say {options['split']}.", {}


def test_an_environment_of_ones_own_is_asked_for_its_own_splits():
    sampler = make()
    result = rollout(Judged, sampler.policy, 1, split="validation")
    sampler.close()
    assert [episode.states[0] for episode in result.episodes] == ["Say validation."]

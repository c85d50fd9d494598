"""``Sampler``: tasks in, plain data out; new weights come in between two replies."""

import threading

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import WeightSwapLock
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask
from tests.agents.small_run import NeverBegins, Odd
from tests.agents.tiny import tiny_policy


class Other(Odd):
    def reset(self, *, seed=None, options=None):
        return "held out", {}


def make(env=Odd, held_out=None, rows=2):
    policy = tiny_policy(sampling=Sampling(max_tokens=4), run_seed=3)
    other = None if held_out is None else TextEnvPool(held_out, rows)
    return Sampler(policy, TextEnvPool(env, rows), other)


def tasks(count):
    return [EpisodeTask(at, at, at) for at in range(count)]


def test_weights_of_another_version_are_refused():
    sampler = make()
    assert len(sampler.play(tasks(3), version=0).episodes) == 3
    with pytest.raises(EngineError, match="version 4"):
        sampler.play(tasks(3), version=4)
    sampler.engine.update_weights(sampler.engine.model.named_parameters(), 4)
    turns = [turn for own in sampler.play(tasks(3), version=4).turns for turn in own]
    assert {turn.version for turn in turns} == {4}
    sampler.close()


def test_held_out_environments_are_played_only_on_request():
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
    "given",
    [{"split": "tset"}, {"seed": -1}, {"episodes": "3"}, {"episodes": 2.5}, {"num_envs": 0}],
)
def test_wrong_rollout_arguments_are_refused(given):
    with pytest.raises(ConfigError, match=next(iter(given))):
        rollout("llm_gym/Echo-v0", "a model that nobody has loaded yet", **given)


class Judged(Odd):
    """A custom environment with splits of its own."""

    def reset(self, *, seed=None, options=None):
        return f"Say {options['split']}.", {}


def test_a_custom_environment_gets_the_split_option():
    sampler = make()
    result = rollout(Judged, sampler.policy, 1, split="validation")
    sampler.close()
    assert [episode.states[0] for episode in result.episodes] == ["Say validation."]


@pytest.mark.parametrize("pauses", [True, False])
def test_new_weights_come_in_only_where_the_player_yields(pauses):
    gate, order = WeightSwapLock(), []
    arrived = threading.Event()

    def visit():
        arrived.set()
        gate.acquire()
        order.append("weights")
        gate.release()

    with gate.playing():
        visitor = threading.Thread(target=visit)
        visitor.start()
        arrived.wait()
        while not gate.requested:
            pass
        order.append("reply")  # being sampled while somebody waits
        if pauses:
            gate.yield_to_update()
        order.append("reply")
    visitor.join()
    assert order == (["reply", "weights", "reply"] if pauses else ["reply", "reply", "weights"])
    assert not gate.requested


def test_playing_waits_for_weights_that_are_coming_in():
    gate, order = WeightSwapLock(), []
    gate.acquire()

    def play():
        with gate.playing():
            order.append("play")

    player = threading.Thread(target=play)
    player.start()
    order.append("weights")
    gate.release()
    player.join()
    assert order == ["weights", "play"]

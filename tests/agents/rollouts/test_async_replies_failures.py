"""Without sync_replies: failures hang nothing, and everything can be used again."""

import gymnasium as gym
import pytest

from llm_gym.core.spaces import AnyText
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.tasks import EpisodeTask, ReplyStatus
from tests.agents.rollouts.test_async_replies import asked, data_of, make, scripted
from tests.agents.rollouts.test_play import Diary, tasks
from tests.agents.scripted import ScriptedEngine


@pytest.mark.parametrize("sync_replies", [True, False])
def test_an_engine_that_loses_a_request_is_an_error(sync_replies):
    def lose(running):
        if len(running) > 7:
            return running[:1]
        engine.requests.clear()
        return []

    engine = ScriptedEngine(lose)
    collector = scripted(engine, 9, sync_replies)
    with pytest.raises(EngineError, match="7"):
        collector.collect(tasks(range(9)))


class Interrupted(Diary):
    """Is interrupted in its second step, once."""

    when = [True]

    def step(self, action):
        if self.when and len(self.told) == 1:
            self.when.pop()
            raise KeyboardInterrupt
        return super().step(action)


def interrupt_poll(collector):
    poll, calls = collector.policy.engine.poll, iter(range(100))

    def interrupted(timeout=None):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return poll(timeout)

    collector.policy.engine.poll = interrupted


def interrupt_step(collector):
    Interrupted.when[:] = [True]


@pytest.mark.parametrize("interrupt", [interrupt_poll, interrupt_step])
@pytest.mark.parametrize("sync_replies", [True, False])
def test_an_interrupt_leaves_everything_usable(sync_replies, interrupt):
    Interrupted.when.clear()
    collector = make(sync_replies, env=Interrupted)
    interrupt(collector)
    with pytest.raises(KeyboardInterrupt):
        collector.collect(tasks(range(8)))
    policy = collector.policy
    assert policy.engine.running == 0
    assert policy._open == policy._asked == {}
    policy.engine.update_weights(policy.engine.model.named_parameters(), 1)
    again = collector.collect(tasks(range(5, 11)))
    fresh = make(sync_replies).collect(tasks(range(5, 11)))
    assert assemble(again).ids_S.equal(assemble(fresh).ids_S)
    assert [e.states for e in again.episodes] == [e.states for e in fresh.episodes]
    assert set(assemble(again).version_T.tolist()) == {1}


def test_an_engine_that_fails_is_left_with_nothing_to_do():
    engine = ScriptedEngine(lambda running: 1 / 0)
    policy = asked(engine)
    with pytest.raises(ZeroDivisionError):
        policy(data_of(policy, 3))
    assert engine.log[-1] == ("cancel", [0, 1, 2])
    assert policy._open == policy._asked == {}


def test_weights_cannot_change_while_replies_are_running():
    collector = make()
    policy = collector.policy
    collector.pool.assign(tasks(range(5)))
    while not policy.engine.running:
        data = policy(collector.pool.reset())
    waiting = data["status"].tolist().count(ReplyStatus.PENDING)
    weights = list(policy.engine.model.named_parameters())
    with pytest.raises(EngineError, match=f"cannot change while {waiting} replies are running"):
        policy.engine.update_weights(weights, 1)
    policy.abandon()
    policy.engine.update_weights(weights, 1)
    assert policy.engine.version == 1


class Endless(gym.Env):
    """Never ends, and says nothing new."""

    observation_space = action_space = AnyText(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "?", {}

    def step(self, action):
        return "?", 0.0, False, False, {}


def test_an_episode_in_which_nothing_changes_is_asked_anew_each_turn():
    engine = ScriptedEngine(lambda running: [max(running)])
    policy = asked(engine)
    pool = TextEnvPool(Endless, 2)
    policy.texts = pool.texts
    pool.assign([EpisodeTask(0, 0), EpisodeTask(1, 1)])
    data = pool.reset()
    for _ in range(4):
        _, data = pool.step_and_maybe_reset(policy(data))
    assert [keys for what, keys in engine.log if what == "submit"] == [[0, 1], [1], [1], [1]]
    assert [episode.num_turns for episode in pool._playing] == [0, 4]

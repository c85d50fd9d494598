"""Without a barrier an environment moves when its reply is there; failures leave nothing behind."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.rollouts import policy as policy_module
from llm_gym_agents.rollouts.policy import READY_SHARE, READY_WAIT_S
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask, ReplyStatus, Turn
from tests.agents.odd import Tagged
from tests.agents.rollouts.test_play import Diary, tasks
from tests.agents.scripted import ScriptedEngine
from tests.agents.small_run import Odd
from tests.agents.tiny import tiny_policy
from tests.matrix import some_of

STOPS = tuple(range(40))
"""Ids that end a reply: so many that replies are of very uneven length."""


def make(sync_replies=False, rows=5, context="history", env=Diary):
    sampling = Sampling(max_tokens=30, stop_ids=STOPS)
    how = {"sampling": sampling, "context": context, "sync_replies": sync_replies}
    return EpisodeCollector(TextEnvPool(env, rows), tiny_policy(run_seed=7, **how))


def scripted(engine, rows, sync_replies=False, env=Diary):
    return EpisodeCollector(TextEnvPool(env, rows), tiny_policy(engine, sync_replies=sync_replies))


def watch(collector):
    """Return a list that fills with the status of each row, step by step."""
    steps, forward = [], collector.policy.forward

    def note(data):
        data = forward(data)
        steps.append(data["status"].tolist())
        return data

    collector.policy.forward = note
    return steps


# --- the same episodes ------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["history", "observation"])
def test_episodes_with_and_without_a_barrier_are_equal(context):
    apart, together = make(context=context), make(context=context, sync_replies=True)
    steps = watch(apart)
    one, other = (c.collect(tasks(range(11))) for c in (apart, together))
    assert any(ReplyStatus.PENDING in rows for rows in steps), "some rows waited"
    assert [e.states for e in one.episodes] == [e.states for e in other.episodes]
    assert [e.actions for e in one.episodes] == [e.actions for e in other.episodes]
    for name in ("ids_S", "token_T", "position_T", "turn_ends_T", "reward_T", "bootstrap_E"):
        assert getattr(assemble(one), name).equal(getattr(assemble(other), name)), name
    torch.testing.assert_close(
        assemble(one).sampler_log_prob_T, assemble(other).sampler_log_prob_T, atol=1e-5, rtol=0
    )


def test_a_turn_has_the_weights_version_of_its_reply():
    engine = ScriptedEngine()
    finish = engine._finish
    engine._finish = lambda request: replace(finish(request), version=request.key)
    turns = [turn for own in scripted(engine, 2).collect(tasks([3, 4])).turns for turn in own]
    assert [turn.version for turn in turns] == [turn.episode for turn in turns]


def test_max_tokens_is_cut_to_the_room_in_the_context():
    requested = []

    def say(request):
        requested.append((len(request.prompt), request.sampling.max_tokens))
        return list(b"ok")

    engine = ScriptedEngine(say=say)
    engine.context_length = 150
    scripted(engine, 1).collect(tasks([2]))
    usual = Sampling().max_tokens
    assert [most for _, most in requested] == [min(usual, 150 - read) for read, _ in requested]
    assert 0 < requested[-1][1] < usual
    assert requested[0][1] > requested[-1][1]


@pytest.mark.parametrize("context", ["history", "verbatim", "observation"])
def test_a_full_context_has_no_bootstrap_prompt(context):
    turns = [Turn(0, 0, [1] * 10, [2] * 5, [0.0] * 5, "stop", 0)]
    policy = tiny_policy(ScriptedEngine(), context=context)
    engine, chat = policy.engine, policy.chat
    alone = context == "observation"
    whole = chat.opening("Rules.", "a tale") if alone else chat.following([2] * 5, "a tale")
    engine.context_length = (0 if alone else 15) + len(whole) + 1
    closing = policy.bootstrap_prompt(turns, ["first", "a tale"], "Rules.")
    assert closing == (whole, alone)
    engine.context_length -= 1  # the value of half a prompt was never learned
    assert policy.bootstrap_prompt(turns, ["first", "a tale"], "Rules.") is None


# --- rows that wait ---------------------------------------------------------------------------


def test_the_pool_leaves_a_waiting_row_where_it_is():
    pool = TextEnvPool(Tagged, 2)
    pool.assign([EpisodeTask(0, 3), EpisodeTask(1, 7)])
    data = pool.reset()
    for turn in range(2):
        data["action"] = torch.tensor([0, pool.texts.add(f"reply to seed 7 turn {turn}")])
        data["status"] = torch.tensor([ReplyStatus.PENDING, ReplyStatus.READY])
        after = pool.step(data)["next"]
        assert after["observation"][0] == data["observation"][0]
        assert after["done"].squeeze(-1).tolist() == [False, False]
        assert after["reward"].squeeze(-1).tolist() == [0.0, turn + 1.0]
        data = after.exclude("reward")
    assert [episode.num_turns for episode in pool._playing] == [0, 2]


# --- who moves when ---------------------------------------------------------------------------


class Logged(Diary):
    """Writes each step into the log that it was given."""

    log = None

    def step(self, action):
        self.log.append(("step", [100 + self.seed]))
        return super().step(action)


def test_a_finished_reply_is_played_at_once_and_the_next_prompt_joins():
    slow, quick = 105, 102  # both last three turns
    engine = ScriptedEngine(lambda running: [min(running)])
    env = type("Env", (Logged,), {"log": engine.log})
    collector = scripted(engine, 2, env=env)
    collector.collect(tasks([2, 5]))
    turn = [("poll", [quick]), ("step", [quick])]
    assert engine.log[:-1] == [
        ("submit", [quick, slow]),
        *turn,
        ("submit", [quick]),  # joins while the slow one is still running
        *turn,
        ("submit", [quick]),
        *turn,
        *[("poll", [slow]), ("step", [slow]), ("submit", [slow])] * 2,
        *[("poll", [slow]), ("step", [slow])],
    ]


def test_a_free_row_takes_the_next_episode_unless_there_is_a_barrier():
    engine = ScriptedEngine(lambda running: [max(running)])
    collector = scripted(engine, 2)
    collector.collect(tasks([0, 3, 6, 9]))  # one turn each
    submitted = [keys for what, keys in engine.log if what == "submit"]
    assert submitted == [[100, 103], [106], [109]]
    assert [keys for what, keys in engine.log if what == "poll"] == [[103], [106], [109], [100]]
    engine = ScriptedEngine(lambda running: [min(running)])
    env = type("Env", (Logged,), {"log": engine.log})
    scripted(engine, 2, sync_replies=True, env=env).collect(tasks([2, 5]))
    turn = [("submit", [102, 105]), ("poll", [102]), ("poll", [105])]
    assert engine.log[:-1] == [*turn, ("step", [102]), ("step", [105])] * 3
    assert set(engine.timeouts) == {None}


# --- how long is waited -----------------------------------------------------------------------


def data_of(policy, count):
    """Return ``count`` rows that have just begun, as a pool would show them."""
    handles = [policy.texts.add(f"I am {at}.") for at in range(count)]
    rows = torch.arange(count)
    columns = {"observation": torch.tensor(handles), "episode": rows, "system": rows * 0}
    return TensorDict(columns, [count])


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it."""
    clock = SimpleNamespace(now=50.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(policy_module, "time", clock)
    return clock


@pytest.mark.parametrize(("rows", "enough"), [(1, 1), (8, 1), (9, 2), (16, 2), (64, 8), (65, 9)])
def test_the_policy_waits_for_one_reply_in_eight(rows, enough, clock):
    engine = ScriptedEngine(lambda running: running[:1])
    policy = tiny_policy(engine, sync_replies=False)
    cuts = policy(data_of(policy, rows))["status"].tolist()
    assert READY_SHARE == 8
    assert cuts == [ReplyStatus.READY] * enough + [ReplyStatus.PENDING] * (rows - enough)
    assert engine.running == rows - enough
    assert engine.timeouts == [None] + [pytest.approx(READY_WAIT_S)] * (enough - 1)


def test_the_policy_waits_only_a_moment_after_the_first_reply(clock):
    def ready(running):
        clock.now += 1000.0 if len(running) == 64 else 0.002
        return running[:1] if len(running) > 62 else []

    engine = ScriptedEngine(ready)
    policy = tiny_policy(engine, sync_replies=False)
    cuts = policy(data_of(policy, 64))["status"].tolist()
    assert cuts == [ReplyStatus.READY] * 2 + [ReplyStatus.PENDING] * 62
    wait = READY_WAIT_S
    assert engine.timeouts == [None, *(pytest.approx(wait - late) for late in (0, 0.002, 0.004))]


def test_a_barrier_ignores_replies_of_abandoned_episodes(clock):
    engine = ScriptedEngine(lambda running: running[:1], lambda request: list(b"%d" % request.key))
    policy = tiny_policy(engine, sync_replies=False)
    data = data_of(policy, 3)
    data["episode"] += 90
    policy(data)
    assert engine.running == 2
    policy.sync_replies = True
    assert policy.texts.read(policy(data_of(policy, 2))["action"].tolist()) == ["0", "1"]
    assert engine.running == 0


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
        if self.when and len(self.actions) == 1:
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


@pytest.mark.parametrize(
    ("sync_replies", "interrupt"), some_of([True, False], [interrupt_poll, interrupt_step])
)
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
    policy = tiny_policy(engine, sync_replies=False)
    with pytest.raises(ZeroDivisionError):
        policy(data_of(policy, 3))
    assert engine.log[-1] == ("cancel", [0, 1, 2])
    assert policy._open == policy._asked == {}


class Endless(Odd):
    """Never ends, and always shows the same."""

    def step(self, action):
        return "?", 0.0, False, False, {}


def test_an_unchanged_observation_is_a_new_request_each_turn():
    engine = ScriptedEngine(lambda running: [max(running)])
    policy = tiny_policy(engine, sync_replies=False)
    pool = TextEnvPool(Endless, 2)
    policy.texts = pool.texts
    pool.assign([EpisodeTask(0, 0), EpisodeTask(1, 1)])
    data = pool.reset()
    for _ in range(4):
        _, data = pool.step_and_maybe_reset(policy(data))
    assert [keys for what, keys in engine.log if what == "submit"] == [[0, 1], [1], [1], [1]]
    assert [episode.num_turns for episode in pool._playing] == [0, 4]

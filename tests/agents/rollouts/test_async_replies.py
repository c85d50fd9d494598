"""Without a barrier an environment moves when its reply is there, and nothing else changes."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from llm_gym.core.outcome import StopReason
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts import policy as policy_module
from llm_gym_agents.rollouts.policy import READY_SHARE, READY_WAIT_S, LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import IDLE, EpisodeTask, ReplyStatus
from llm_gym_agents.rollouts.turns import Turn
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.odd import Tagged
from tests.agents.rollouts.test_play import Diary, tasks
from tests.agents.scripted import ScriptedEngine
from tests.agents.tiny import tiny_model, tiny_tokenizer

STOPS = tuple(range(40))
"""Ids that end a reply: so many that replies are of very uneven length."""


class Spied(TransformersEngine):
    """Keeps what was asked and what was said, by episode."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked, self.said = {}, {}

    def submit(self, requests):
        requests = list(requests)
        super().submit(requests)
        for request in requests:
            self.asked.setdefault(request.key, []).append(list(request.prompt))

    def poll(self, timeout=None):
        done = super().poll(timeout)
        for reply in done:
            self.said.setdefault(reply.key, []).append(reply.ids)
        return done


def make(sync_replies=False, rows=5, context="history", env=Diary, length=None):
    engine = Spied(tiny_model(), context_length=length)
    policy = LLMPolicy(
        engine,
        ChatFormat.from_tokenizer(tiny_tokenizer()),
        sampling=Sampling(max_tokens=30, stop_ids=STOPS),
        context=context,
        run_seed=7,
        sync_replies=sync_replies,
    )
    return EpisodeCollector(TextEnvPool(env, rows), policy)


def scripted(engine, rows, sync_replies=False, env=Diary):
    policy = LLMPolicy(
        engine, ChatFormat.from_tokenizer(tiny_tokenizer()), sync_replies=sync_replies
    )
    return EpisodeCollector(TextEnvPool(env, rows), policy)


def watch(collector):
    """Return a list that fills with what the policy answered: rows of (episode, cut, seen)."""
    steps, forward = [], collector.policy.forward

    def note(data):
        data = forward(data)
        names = ("episode", "status", "observation", "turn")
        steps.append(
            [tuple(row) for row in torch.stack([data[name] for name in names], 1).tolist()]
        )
        return data

    collector.policy.forward = note
    return steps


# --- the same episodes ------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["history", "observation"])
def test_the_same_episodes_come_of_it(context):
    apart, together = make(context=context), make(context=context, sync_replies=True)
    steps = watch(apart)
    one, other = (c.collect(tasks(range(11))) for c in (apart, together))
    assert any(cut == ReplyStatus.PENDING for rows in steps for _, cut, *_ in rows), (
        "somebody waited"
    )
    assert [e.states for e in one.episodes] == [e.states for e in other.episodes]
    assert [e.actions for e in one.episodes] == [e.actions for e in other.episodes]
    for name in ("ids_S", "token_T", "position_T", "turn_ends_T", "reward_T", "bootstrap_E"):
        assert getattr(assemble(one), name).equal(getattr(assemble(other), name)), name
    torch.testing.assert_close(
        assemble(one).sampler_log_prob_T, assemble(other).sampler_log_prob_T, atol=1e-5, rtol=0
    )


def test_a_turn_is_of_the_version_that_its_reply_says_whatever_the_engine_has_by_then():
    engine = ScriptedEngine()
    finish = engine._finish
    engine._finish = lambda request: replace(finish(request), version=request.key)
    turns = [turn for own in scripted(engine, 2).collect(tasks([3, 4])).turns for turn in own]
    assert [turn.version for turn in turns] == [turn.episode for turn in turns]


def test_no_more_is_asked_for_than_the_context_has_room_for():
    asked = []

    def say(request):
        asked.append((len(request.prompt), request.sampling.max_tokens))
        return list(b"ok")

    engine = ScriptedEngine(say=say)
    engine.context_length = 150
    scripted(engine, 1).collect(tasks([2]))
    usual = Sampling().max_tokens
    assert [most for _, most in asked] == [min(usual, 150 - read) for read, _ in asked]
    assert 0 < asked[-1][1] < usual
    assert asked[0][1] > asked[-1][1]


@pytest.mark.parametrize(("context", "room"), [("history", 5), ("observation", 20)])
def test_what_would_have_been_read_after_a_cut_ends_with_the_context(context, room):
    engine, chat = ScriptedEngine(), ChatFormat.from_tokenizer(tiny_tokenizer())
    engine.context_length = 20
    turns = [Turn(0, 0, [1] * 10, [2] * 5, [0.0] * 5, "stop", 0)]
    closing = LLMPolicy(engine, chat, context=context).bootstrap_prompt(
        turns, "a long tale " * 9, "Rules."
    )
    assert len(closing.ids) == room
    assert closing.new_sequence == (context == "observation")


def test_a_batch_is_the_named_episodes_whole_and_in_order():
    rollout = make(rows=4).collect(tasks([9, 3, 4, 0, 8, 2]))
    assert assemble(rollout).episode_E.tolist() == [100, 102, 103, 104, 108, 109]
    for episode in rollout.episodes:
        turns = episode.seed % 3 + 1
        assert episode.rewards == [float(at) for at in range(1, turns + 1)]
        assert episode.states[1:] == [f"{episode.seed} was told {at + 1}." for at in range(turns)]
        assert episode.dones == [False] * (turns - 1) + [True]


def test_batches_follow_each_other_without_a_trace():
    collector = make()
    collector.collect(tasks(range(5)))
    assert collector.policy.engine.running == 0
    again = collector.collect(tasks(range(5, 11)))
    fresh = make().collect(tasks(range(5, 11)))
    assert assemble(again).ids_S.equal(assemble(fresh).ids_S)


def test_a_prompt_is_the_prompt_before_its_reply_and_the_new_observation():
    collector = make()
    collector.collect(tasks(range(9)))
    engine, chat = collector.policy.engine, collector.policy.chat
    assert sorted(engine.asked) == [100 + seed for seed in range(9)]
    for episode, prompts in engine.asked.items():
        replies = engine.said[episode]
        assert len(prompts) == len(replies) == (episode - 100) % 3 + 1
        for at in range(1, len(prompts)):
            before = prompts[at - 1] + replies[at - 1]
            new = chat.following(replies[at - 1], f"{episode - 100} was told {at}.")
            assert prompts[at] == before + new


def test_what_was_sampled_is_what_the_trainer_scores():
    collector = make()
    data = assemble(collector.collect(tasks(range(8))))
    with torch.no_grad():
        model = PolicyValueModel(collector.policy.engine.model)
        inputs = (data.ids_S, data.sequence_lengths_Q, data.position_T, data.token_T)
        trained = model(*inputs).log_prob_T
    torch.testing.assert_close(trained, data.sampler_log_prob_T, atol=1e-5, rtol=0)


def test_an_episode_that_outgrows_the_context_is_cut_while_others_go_on():
    one, other = (make(sync_replies=b, length=110).collect(tasks(range(9))) for b in (False, True))
    reasons = [episode.stop_reason for episode in one.episodes]
    assert StopReason.CONTEXT in reasons
    assert reasons == [episode.stop_reason for episode in other.episodes]
    assert assemble(one).ids_S.equal(assemble(other).ids_S)


# --- rows that wait ---------------------------------------------------------------------------


def test_rows_that_wait_do_not_move():
    collector = make()
    steps = watch(collector)
    collector.collect(tasks(range(7)))
    waited = 0
    for now, then in itertools.pairwise(steps):
        for row, (episode, cut, observation, turn) in enumerate(now):
            if cut == ReplyStatus.PENDING:
                waited += 1
                assert then[row][0] == episode
                assert then[row][2] == observation
                assert turn == 0
    assert waited > 5


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


class Noted(Diary):
    """Writes each step into the log that it was given."""

    log = None

    def step(self, action):
        self.log.append(("step", [100 + self.seed]))
        return super().step(action)


def test_a_reply_that_is_there_is_played_at_once_and_the_next_prompt_joins():
    slow, quick = 105, 102  # both last three turns
    engine = ScriptedEngine(lambda running: [min(running)])
    env = type("Env", (Noted,), {"log": engine.log})
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


def test_a_row_that_is_free_takes_the_next_episode_while_others_run():
    engine = ScriptedEngine(lambda running: [max(running)])
    collector = scripted(engine, 2)
    collector.collect(tasks([0, 3, 6, 9]))  # one turn each
    submitted = [keys for what, keys in engine.log if what == "submit"]
    assert submitted == [[100, 103], [106], [109]]
    assert [keys for what, keys in engine.log if what == "poll"] == [[103], [106], [109], [100]]


def test_with_a_barrier_nobody_moves_before_the_last_reply():
    engine = ScriptedEngine(lambda running: [min(running)])
    env = type("Env", (Noted,), {"log": engine.log})
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


def asked(engine, sync_replies=False):
    return LLMPolicy(engine, ChatFormat.from_tokenizer(tiny_tokenizer()), sync_replies=sync_replies)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it."""
    clock = SimpleNamespace(now=50.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(policy_module, "time", clock)
    return clock


@pytest.mark.parametrize(("rows", "enough"), [(1, 1), (8, 1), (9, 2), (16, 2), (64, 8), (65, 9)])
def test_one_reply_in_eight_is_enough(rows, enough, clock):
    engine = ScriptedEngine(lambda running: running[:1])
    policy = asked(engine)
    cuts = policy(data_of(policy, rows))["status"].tolist()
    assert READY_SHARE == 8
    assert cuts == [ReplyStatus.READY] * enough + [ReplyStatus.PENDING] * (rows - enough)
    assert engine.running == rows - enough
    assert engine.timeouts == [None] + [pytest.approx(READY_WAIT_S)] * (enough - 1)


def test_a_moment_after_the_first_reply_is_enough_too(clock):
    def ready(running):
        clock.now += 1000.0 if len(running) == 64 else 0.002
        return running[:1] if len(running) > 62 else []

    engine = ScriptedEngine(ready)
    policy = asked(engine)
    cuts = policy(data_of(policy, 64))["status"].tolist()
    assert cuts == [ReplyStatus.READY] * 2 + [ReplyStatus.PENDING] * 62
    wait = READY_WAIT_S
    assert engine.timeouts == [None, *(pytest.approx(wait - late) for late in (0, 0.002, 0.004))]


def test_replies_that_were_waited_for_are_not_asked_for_again(clock):
    engine = ScriptedEngine(lambda running: running[:1])
    policy = asked(engine)
    data = data_of(policy, 3)
    for _ in range(3):
        data = policy(data)
        moved = data["status"] == ReplyStatus.READY
        data["episode"] = torch.where(moved, IDLE, data["episode"])
    assert [keys for what, keys in engine.log if what == "submit"] == [[0, 1, 2]]
    assert data["episode"].tolist() == [IDLE] * 3
    assert policy._asked == {}


def test_act_always_waits():
    engine = ScriptedEngine(lambda running: running[-1:], lambda request: list(b"%d" % request.key))
    policy = asked(engine)
    assert policy.act(["a", "b", "c"]) == ["0", "1", "2"]
    assert policy.act(["d", "e", "f"], new=[False, True, False]) == ["0", "3", "2"]


def test_act_waits_for_its_own_replies_and_not_for_those_of_rows_that_are_gone(clock):
    engine = ScriptedEngine(lambda running: running[:1], lambda request: list(b"%d" % request.key))
    policy = asked(engine)
    data = data_of(policy, 3)
    data["episode"] += 90
    policy(data)
    assert engine.running == 2
    assert policy.act(["a", "b"]) == ["0", "1"]
    assert engine.running == 0

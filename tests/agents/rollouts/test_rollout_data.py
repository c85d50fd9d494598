"""Batches that are put together, or cut into packs, are those that were assembled at once."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory
from llm_gym_agents.model.shared_prefix import share_prefixes
from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.pack import Packer
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData, assemble
from llm_gym_agents.rollouts.tasks import (
    BootstrapPrompt,
    EpisodeTask,
    Rollout,
    Turn,
    episode_id,
    join_rollouts,
    split_tasks,
)
from tests.agents.scored import episode

ids = st.lists(st.integers(0, 255), min_size=1, max_size=4)


@st.composite
def episodes(draw, number):
    """Return an episode, its turns and what would have come next."""
    history, cut = draw(st.booleans()), draw(st.booleans())
    count = draw(st.integers(1, 3))
    turns = []
    for at in range(count):
        reply = draw(ids)
        turns.append(
            Turn(
                episode=number,
                number=at,
                prompt_ids=draw(ids),
                reply_ids=reply,
                log_probs=[-float(n) for n in range(len(reply))],
                finish="stop",
                version=draw(st.integers(0, 3)),
                new_sequence=at == 0 or not history,
            )
        )
    episode = Trajectory(
        episode_id=number,
        group=draw(st.integers(0, 3)),
        states=[""] * (count + 1),
        actions=[""] * count,
        rewards=draw(st.lists(st.floats(-1, 1, width=32), min_size=count, max_size=count)),
        terminated=[False] * (count - 1) + [not cut],
        truncated=[False] * (count - 1) + [cut],
    )
    episode.stop_reason = StopReason.MAX_STEPS if cut else StopReason.LOST
    closing = None
    if cut:
        closing = BootstrapPrompt(draw(st.lists(st.integers(0, 255), max_size=3)), not history)
        if closing.new_sequence and not closing.ids:
            closing = BootstrapPrompt([7], True)  # a prompt has an id at least
    return episode, turns, closing


@st.composite
def rollouts(draw, least=1, most=6):
    played = [draw(episodes(n)) for n in range(draw(st.integers(least, most)))]
    return Rollout(*map(list, zip(*played, strict=True)), unplayed=[], failures=[])


def assert_same(one, other):
    for name in RolloutData.__annotations__:
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours is None or theirs is None:  # states and branches, which few estimators ask for
            assert ours is theirs, name
        else:
            assert ours.equal(theirs), name
            assert ours.dtype == theirs.dtype, name


@settings(max_examples=30)
@given(rollout=rollouts())
def test_a_batch_holds_every_turn_and_bootstrap_prompt(rollout):
    data = assemble(rollout)
    assert data.ids_S[data.position_T + 1].equal(data.token_T)
    assert data.tokens == rollout.tokens == len(data.reward_T)
    cut = [closing is not None for closing in rollout.bootstrap_prompts]
    assert (data.bootstrap_E != NO_POSITION).tolist() == cut
    rewards = [reward for episode in rollout.episodes for reward in episode.rewards]
    assert data.reward_T[data.turn_ends_T].tolist() == rewards


@settings(max_examples=10)
@given(rollout=rollouts())
def test_rollouts_and_batches_can_be_pickled(rollout):
    again = pickle.loads(pickle.dumps(rollout))
    assert again == rollout
    assert_same(pickle.loads(pickle.dumps(assemble(again))), assemble(rollout))


@pytest.mark.parametrize("context", ["rules before each turn", "groups"])
def test_shared_prefixes_do_not_fill_a_pack(context):
    prompts = {"rules before each turn": (range(40), 1, 8), "groups": (range(40), 8, 1)}
    prompt, episodes, turns = prompts[context]
    played = [
        [Turn(0, at, [*prompt, 50 + at], [60 + own], [-1.0], "stop", 0) for at in range(turns)]
        for own in range(episodes)
    ]
    records = [episode([0.0] * turns, episode_id=at) for at in range(episodes)]
    data = assemble(Rollout(records, played, [None] * episodes, [], []))
    assert len(data.ids_S) == 8 * 42
    packer, everything = Packer(data), list(range(episodes))
    assert len(packer.within(everything, 100)) == 1


@pytest.mark.parametrize("cut", [(), (0,), (1,), (0, 1)])
def test_an_episode_is_truncated_if_any_of_its_replies_is(cut):
    turns = [Turn(0, at, [1], [2], [-1.0], "length" if at in cut else "stop", 0) for at in range(2)]
    episode = Trajectory(episode_id=0, actions=["a", "b"], rewards=[0.0, 1.0])
    data = assemble(Rollout([episode], [turns], [None], [], []))
    assert data.truncated_reply_E.tolist() == [bool(cut)]


@given(rollouts(), st.integers(0, 12), st.booleans(), st.randoms(use_true_random=False))
def test_packs_hold_every_token_and_bootstrap_position_once(rollout, room, whole, random):
    data = assemble(rollout)
    packer = Packer(data)
    longest = packer.ids_E if whole else data.sequence_lengths_Q
    budget = int(longest.max()) + room
    order = list(range(len(data.lengths_E)))
    random.shuffle(order)
    packs = packer.within(order, budget, whole=whole)
    seen_T = torch.cat([pack.index_T for pack in packs])
    assert sorted(seen_T.tolist()) == list(range(data.tokens))
    closed = []
    for pack in packs:
        # A prompt to bootstrap from joins the pack before it, and may exceed the budget.
        assert len(pack.ids_S) == int(pack.sequence_lengths_Q.sum())
        read = share_prefixes(pack.ids_S, pack.sequence_lengths_Q, pads=True)
        assert len(read.ids_U if read else pack.ids_S) <= budget + int(longest.max())
        assert pack.lengths_M.sum() == len(pack.index_T) == len(pack.token_T)
        assert torch.equal(pack.token_T, data.token_T[pack.index_T])
        assert torch.equal(pack.ids_S[pack.position_T + 1], pack.token_T)
        ends = pack.sequence_lengths_Q.cumsum(0) - 1
        for number, at in zip(pack.episodes_M.tolist(), pack.bootstrap_M.tolist(), strict=True):
            if at == NO_POSITION:
                continue
            closed.append(number)
            assert at in ends  # what would have been read next is the last of its sequence
            assert pack.ids_S[at] == data.ids_S[data.bootstrap_E[number]]
    assert sorted(closed) == (data.bootstrap_E != NO_POSITION).nonzero().flatten().tolist()


def named(id):
    made = Trajectory(seed=id)
    made.episode_id = id
    return made


def rollout(ids, unplayed=(), env_id="some/Env-v0"):
    return Rollout(
        episodes=[named(id) for id in ids],
        turns=[[Turn(id, 0, [1], [2], [0.0], "stop", 0)] for id in ids],
        bootstrap_prompts=[BootstrapPrompt([id], True) for id in ids],
        unplayed=[named(id) for id in unplayed],
        failures=[f"episode {id}" for id in unplayed],
        env_id=env_id,
    )


@given(st.sets(st.integers(0, 1000)), st.integers(1, 20))
def test_every_task_is_in_one_shard_and_shards_are_full(ids, size):
    shards = split_tasks([EpisodeTask(id, 0) for id in ids], size)
    assert [task.id for shard in shards for task in shard] == sorted(ids)
    assert all(len(shard) == size for shard in shards[:-1])


def test_rollouts_are_joined_in_id_order():
    whole = join_rollouts([rollout([3, 5], [9]), rollout([1, 4], [2])])
    assert [episode_id(each) for each in whole.episodes] == [1, 3, 4, 5]
    assert [turns[0].episode for turns in whole.turns] == [1, 3, 4, 5]
    assert [prompt.ids for prompt in whole.bootstrap_prompts] == [[1], [3], [4], [5]]
    assert [episode_id(each) for each in whole.unplayed] == [2, 9]
    assert sorted(whole.failures) == ["episode 2", "episode 9"]
    assert whole.env_id == "some/Env-v0"
    for nothing in ([], [rollout([])]):
        assert join_rollouts(nothing).all_episodes == []


def test_only_episodes_cut_by_our_own_limit_are_not_bootstrapped():
    stops = [
        (StopReason.MAX_STEPS, 2),
        (StopReason.MAX_STEPS, 1),  # the environment's own limit, before ours
        (StopReason.TOKENS, 2),
    ]
    episodes = [episode([0.0] * turns) for _, turns in stops]
    for each, (stop, _) in zip(episodes, stops, strict=True):
        each.stop_reason = stop
    after = [BootstrapPrompt([at], False) for at in range(3)]
    whole = Rollout(episodes, [[]] * 3, after, [], [])
    assert whole.ending_after(2).bootstrap_prompts == [None, after[1], after[2]]
    assert whole.ending_after(None).bootstrap_prompts == after


def played(rewards, group, stop="won", infos=(), finishes=("stop", "stop")):
    """Return an episode with a turn for each reward, and those turns of two tokens."""
    made = episode(rewards, group=group, infos=list(infos))
    made.stop_reason, made.success = stop, stop == "won"
    turns = [
        Turn(0, at, [1], [2, 3], [0.0, 0.0], finish, 0)
        for at, finish in zip(range(len(rewards)), finishes, strict=False)
    ]
    return made, turns


def batch_of(*pairs, unplayed=()):
    episodes, turns = zip(*pairs, strict=True)
    return Rollout(list(episodes), list(turns), [None] * len(pairs), list(unplayed), [])


def test_metrics_are_means_over_episodes_replies_or_groups():
    usable, unusable = ({"valid_action": flag} for flag in (True, False))
    paid = {"valid_action": True, "reward_terms": {"bonus": 0.5}}
    row = episode_metrics(
        batch_of(
            played([1.0], 7, infos=[paid]),
            played([0.0, 1.0], 7, infos=[unusable, paid]),
            played([0.0, 0.0], 8, "context", [usable, usable], ("length", "stop")),
            played([4.0], 9, "lost"),
            unplayed=[episode()],
        )
    )
    assert row == {
        "episode/success": 0.5,
        "reward/mean": 1.5,
        "episode/turns": 1.5,
        "episode/tokens": 3.0,
        "episode/unplayed": 1.0,
        "episode/context_full": 0.25,
        "episode/truncated_replies": 1 / 6,
        "reward/std": 1.5,
        "episode/invalid": 0.2,
        "reward/bonus": 0.25,
    }
    assert "episode/invalid" not in episode_metrics(batch_of(played([1.0], 1))), "unknown"

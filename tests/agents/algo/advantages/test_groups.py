"""Groups, by episode and turn by turn, and REINFORCE: known numbers and a plain loop."""

import statistics
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym_agents.algo import TokenStream, get_advantage, group_ids
from tests.agents.algo import reference
from tests.agents.algo.reference import FRACTIONS, examples, streams

CENTRED = ["grpo", "dr_grpo", "rloo"]


def stream_of(scores, groups, lengths=None):
    lengths = lengths or [1] * len(scores)
    rewards = [s for s, n in zip(scores, lengths, strict=True) for s in [0.0] * (n - 1) + [s][:n]]
    return TokenStream(
        reward_T=torch.tensor(rewards),
        lengths_E=torch.tensor(lengths),
        group_E=torch.tensor(groups),
    )


@examples
@given(streams(max_length=6, max_episodes=8), st.sampled_from(CENTRED))
def test_matches_a_loop_over_the_groups(stream, name):
    lengths, groups = stream.lengths_E.tolist(), stream.group_E.tolist()
    scores = [sum(run) for run in reference.split(stream.reward_T.tolist(), lengths)]
    expected_E = torch.tensor(
        reference.group_scores(name, scores, lengths, groups), dtype=torch.float64
    )
    advantages_T, returns_T = get_advantage(name)(stream)
    expected_T = expected_E.repeat_interleave(stream.lengths_E)
    torch.testing.assert_close(advantages_T, expected_T, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(returns_T, stream.on_tokens(torch.tensor(scores).double()))


def test_equal_scores_give_zero_advantages():
    # A float32 mean of three 0.9 is off by 6e-8, and 6e-8 / 1e-6 would be a gradient.
    stream = stream_of([0.9, 0.9, 0.9], [0, 0, 0])
    for name in ("grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline"):
        assert get_advantage(name)(stream).advantages_T.tolist() == [0.0, 0.0, 0.0]


def test_every_setting_has_an_effect():
    stream = stream_of([0.0, 1.0, 5.0], [0, 0, 0], [1, 2, 3])
    for name, setting in (
        ("grpo", {"norm_by_std": False}),
        ("grpo", {"epsilon": 1.0}),
        ("reinforce_plus_plus_baseline", {"whiten": False}),
    ):
        spec = get_advantage(name)
        changed = spec(stream, **setting).advantages_T
        assert not torch.equal(changed, spec(stream).advantages_T), (name, setting)


@pytest.mark.parametrize(
    "index",
    [
        ["x", "y", "x"],
        np.array(["x", "y", "x"], dtype=object),
        np.array([7, 3, 7]),
        torch.tensor([7, 3, 7]),
        (uid for uid in ("x", "y", "x")),
    ],
)
def test_any_labels_make_groups(index):
    assert group_ids(index).tolist() == [0, 1, 0]


def one_token_turns(*episodes, groups=None):
    lengths_E = torch.tensor([len(each) for each in episodes])
    return TokenStream(
        reward_T=torch.tensor([reward for each in episodes for reward in each]),
        lengths_E=lengths_E,
        turn_ends_T=torch.ones(int(lengths_E.sum()), dtype=torch.bool),
        group_E=torch.tensor(groups or [0] * len(episodes)),
    )


def test_a_turn_is_compared_with_the_same_turn_of_the_others():
    stream = one_token_turns([1.0, 0.0], [0.0, 1.0])
    settings = {"credit": "turn", "gamma": 0.5}
    # To come: 1 and 0 in the first episode, 0.5 and 1 in the second.
    assert get_advantage("dr_grpo")(stream, **settings).advantages_T.tolist() == [
        0.25, -0.5, -0.25, 0.5,
    ]  # fmt: skip
    assert get_advantage("rloo")(stream, **settings).advantages_T.tolist() == [0.5, -1.0, -0.5, 1.0]
    std = statistics.stdev([0.25, -0.5, -0.25, 0.5])
    grpo_T = get_advantage("grpo")(stream, **settings).advantages_T
    torch.testing.assert_close(
        grpo_T, torch.tensor([0.25, -0.5, -0.25, 0.5]) / std, atol=1e-5, rtol=0
    )


def test_shaping_that_sums_to_zero_shows_only_in_turn_credit():
    plain = one_token_turns([0.0, 0.0, 1.0], [0.0, 0.0, 0.0])
    shaped = one_token_turns([0.5, 0.25, 0.25], [-0.25, 0.5, -0.25])  # two potentials, from 0 to 0
    for name in ("grpo", "rloo"):
        spec = get_advantage(name)
        assert torch.equal(spec(plain).advantages_T, spec(shaped).advantages_T)
        settings = {"credit": "turn", "gamma": 0.5}
        by_turn_T = spec(shaped, **settings).advantages_T
        assert not torch.equal(spec(plain, **settings).advantages_T, by_turn_T)
        assert by_turn_T[0] > 0 > by_turn_T[3], "the first move led nearer, and the other's away"


@pytest.mark.parametrize("credit", ["episode", "turn"])
def test_groups_of_empty_episodes_change_nothing(credit):
    grpo, turns = get_advantage("grpo"), ([1.0, 0.0], [0.0, 1.0])
    alone = grpo(one_token_turns(*turns, groups=[9, 9]), credit=credit)
    beside = grpo(one_token_turns(*[[]] * 5, *turns, groups=[*range(5), 9, 9]), credit=credit)
    assert torch.equal(beside.advantages_T, alone.advantages_T)


@examples
@given(streams(max_length=6, max_episodes=6), FRACTIONS, st.sampled_from(["dr_grpo", "rloo"]))
def test_matches_a_loop_over_groups_and_turns(stream, gamma, name):
    lengths = stream.lengths_E.tolist()
    rewards = reference.split(stream.reward_T.tolist(), lengths)
    ends = reference.split(stream.turn_ends_T.tolist(), lengths)
    expected, peers = [], defaultdict(list)
    for group, own, own_ends in zip(stream.group_E.tolist(), rewards, ends, strict=True):
        turns: list[list[float]] = [[]]
        for reward, last in zip(own, own_ends, strict=True):
            turns[-1].append(reward)
            turns += [[]] if last else []
        to_come = 0.0
        found = []
        for turn in reversed(turns[:-1]):
            to_come = sum(turn) + gamma * to_come
            found.append((to_come, len(turn)))
        for number, (value, size) in enumerate(reversed(found)):
            peers[group, number].append(value)
            expected.append((value, (group, number), size))
    advantages = []
    played = Counter(
        group for group, length in zip(stream.group_E.tolist(), lengths, strict=True) if length
    )
    for value, place, size in expected:
        count = played[place[0]]
        led = value - sum(peers[place]) / count if count > 1 else 0.0
        if name == "rloo" and count > 1:
            led *= count / (count - 1)
        advantages += [led] * size
    found_T = get_advantage(name)(stream, credit="turn", gamma=gamma).advantages_T
    torch.testing.assert_close(
        found_T, torch.tensor(advantages, dtype=found_T.dtype), rtol=1e-7, atol=1e-7
    )


@examples
@given(streams(), FRACTIONS)
def test_returns_are_the_discounted_rewards_to_go(stream, gamma):
    expected: list[float] = []
    for run in reference.split(stream.reward_T.tolist(), stream.lengths_E.tolist()):
        ones = [1.0] * len(run)
        expected += reference.gae(
            run, [0.0] * len(run), gammas=[gamma] * len(run), lams=ones, after=0.0
        )
    out = get_advantage("reinforce_plus_plus")(stream, gamma=gamma)
    expected_T = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(out.returns_T, expected_T, rtol=1e-10, atol=1e-10)
    white_T = torch.tensor(reference.whiten(expected), dtype=torch.float64)
    torch.testing.assert_close(out.advantages_T, white_T, rtol=1e-6, atol=1e-6)


def test_every_setting_of_reinforce_has_an_effect():
    stream = TokenStream(
        reward_T=torch.tensor([1.0, 2.0, 4.0]),
        lengths_E=torch.tensor([3]),
        turn_ends_T=torch.tensor([0, 1, 1]),
    )
    spec = get_advantage("reinforce_plus_plus")
    raw = spec(stream, whiten=False).advantages_T
    assert raw.tolist() == [7.0, 6.0, 4.0]
    assert spec(stream, whiten=False, gamma=0.5).advantages_T.tolist() == [3.0, 4.0, 4.0]
    per_turn = spec(stream, whiten=False, gamma=0.5, discount="turn").advantages_T
    assert per_turn.tolist() == [5.0, 4.0, 4.0]
    assert spec(stream).advantages_T.mean().item() == pytest.approx(0.0, abs=1e-6)

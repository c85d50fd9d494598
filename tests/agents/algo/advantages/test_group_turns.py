"""Groups compared turn by turn: known numbers, a plain loop, and what shaping does to them."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import TokenStream, get_advantage
from tests.agents.algo import reference
from tests.agents.algo.strategies import FRACTIONS, examples, streams


def one_token_turns(*episodes: list[float], groups: list[int] | None = None) -> TokenStream:
    lengths_E = torch.tensor([len(each) for each in episodes])
    return TokenStream(
        reward_T=torch.tensor([reward for each in episodes for reward in each]),
        lengths_E=lengths_E,
        turn_ends_T=torch.ones(int(lengths_E.sum()), dtype=torch.bool),
        group_E=torch.tensor(groups or [0] * len(episodes)),
    )


def test_a_turn_is_compared_with_the_same_turn_of_the_others() -> None:
    stream = one_token_turns([1.0, 0.0], [0.0, 1.0])
    told = {"credit": "turn", "gamma": 0.5}
    # To come: 1 and 0 in the first episode, 0.5 and 1 in the second.
    assert get_advantage("dr_grpo")(stream, **told).advantages_T.tolist() == [
        0.25, -0.5, -0.25, 0.5,
    ]  # fmt: skip
    assert get_advantage("rloo")(stream, **told).advantages_T.tolist() == [0.5, -1.0, -0.5, 1.0]
    std = statistics.stdev([0.25, -0.5, -0.25, 0.5])
    grpo_T = get_advantage("grpo")(stream, **told).advantages_T
    torch.testing.assert_close(
        grpo_T, torch.tensor([0.25, -0.5, -0.25, 0.5]) / std, atol=1e-5, rtol=0
    )


def test_an_episode_that_is_over_has_nothing_more_to_come() -> None:
    stream = one_token_turns([0.0, 0.0, 6.0], [0.0, 1.0], [0.0], groups=[0, 0, 0])
    led_T = get_advantage("rloo")(stream, credit="turn").advantages_T
    # To come: 6 each, 1 each, 0; in the third turn the others are over.
    assert led_T.tolist() == [5.5, 5.5, 6.0, -2.0, -2.0, -3.5]


def test_one_that_is_left_alone_in_its_group_teaches_nothing() -> None:
    stream = one_token_turns([0.0, 5.0], [1.0], [2.0], groups=[0, 1, 1])
    for name in ("grpo", "dr_grpo", "rloo"):
        advantages_T = get_advantage(name)(stream, credit="turn").advantages_T
        assert advantages_T[:2].tolist() == [0.0, 0.0], name
        assert advantages_T[3] > 0 > advantages_T[2], name


def test_all_rewards_of_a_turn_count_for_all_of_its_tokens() -> None:
    stream = TokenStream(
        reward_T=torch.tensor([1.0, 0.0, 0.0, 0.0]),  # on the first of two tokens
        lengths_E=torch.tensor([2, 2]),
        turn_ends_T=torch.tensor([False, True, False, True]),
        group_E=torch.tensor([0, 0]),
    )
    advantages_T = get_advantage("rloo")(stream, credit="turn").advantages_T
    assert advantages_T.tolist() == [1.0, 1.0, -1.0, -1.0]


def test_shaping_that_adds_up_to_nothing_shows_only_where_turns_are_compared() -> None:
    plain = one_token_turns([0.0, 0.0, 1.0], [0.0, 0.0, 0.0])
    shaped = one_token_turns([0.5, 0.25, 0.25], [-0.25, 0.5, -0.25])  # two potentials, from 0 to 0
    for name in ("grpo", "rloo"):
        spec = get_advantage(name)
        assert torch.equal(spec(plain).advantages_T, spec(shaped).advantages_T)
        told = {"credit": "turn", "gamma": 0.5}
        by_turn_T = spec(shaped, **told).advantages_T
        assert not torch.equal(spec(plain, **told).advantages_T, by_turn_T)
        assert by_turn_T[0] > 0 > by_turn_T[3], "the first move led nearer, and the other's away"


@examples
@given(streams(max_length=6, max_episodes=6), FRACTIONS, st.sampled_from(["dr_grpo", "rloo"]))
def test_matches_a_loop_over_groups_and_turns(stream: TokenStream, gamma: float, name: str) -> None:
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


def test_credit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="credit must be one of episode, turn, got 'token'"):
        get_advantage("grpo")(one_token_turns([1.0], [0.0]), credit="token")

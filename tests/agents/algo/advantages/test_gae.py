import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym_agents.algo import StreamError, TokenStream, gae, gae_turn
from tests.agents.algo import reference
from tests.agents.algo.reference import FRACTIONS, examples, streams
from tests.agents.work import TensorWork


def slow_gae(stream, gamma, lam, discount):
    ends = stream.turn_ends_T.tolist()
    steps = [discount == "token" or end for end in ends]
    runs = zip(
        reference.split(stream.reward_T.tolist(), stream.lengths_E.tolist()),
        reference.split(stream.value_T.tolist(), stream.lengths_E.tolist()),
        reference.split(steps, stream.lengths_E.tolist()),
        stream.terminated_E.tolist(),
        stream.bootstrap_E.tolist(),
        strict=True,
    )
    advantages: list[float] = []
    for rewards, values, step, terminated, bootstrap in runs:
        advantages += reference.gae(
            rewards,
            values,
            gammas=[gamma if s else 1.0 for s in step],
            lams=[lam if s else 1.0 for s in step],
            after=0.0 if terminated else bootstrap,
        )
    return torch.tensor(advantages, dtype=torch.float64)


@examples
@given(streams(), FRACTIONS, FRACTIONS, st.sampled_from(["token", "turn"]))
def test_matches_a_loop_over_each_episode(stream, gamma, lam, discount):
    advantages_T, returns_T = gae(stream, gamma=gamma, lam=lam, discount=discount, whiten=False)
    expected_T = slow_gae(stream, gamma, lam, discount)
    torch.testing.assert_close(advantages_T, expected_T, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(returns_T, expected_T + stream.value_T, rtol=1e-10, atol=1e-10)


@examples
@given(streams(), FRACTIONS, FRACTIONS)
def test_one_step_per_turn_is_gae_over_the_turns(stream, gamma, lam):
    ends, turns, start = stream.turn_ends_T.tolist(), [], 0
    for position, end in enumerate(ends):
        if end:
            turns.append((start, position + 1))
            start = position + 1
    turn_rewards = [sum(stream.reward_T[a:b].tolist()) for a, b in turns]
    turn_values = [stream.value_T[a].item() for a, _ in turns]
    counts = [
        sum(run) for run in reference.split([float(e) for e in ends], stream.lengths_E.tolist())
    ]
    as_turns = TokenStream(
        reward_T=torch.tensor(turn_rewards, dtype=torch.float64),
        value_T=torch.tensor(turn_values, dtype=torch.float64),
        lengths_E=torch.tensor(counts).long(),
        terminated_E=stream.terminated_E,
        bootstrap_E=stream.bootstrap_E,
        turn_ends_T=torch.ones(len(turns), dtype=torch.bool),
    )
    expected_K = slow_gae(as_turns, gamma, lam, "token")
    sizes_K = torch.tensor([b - a for a, b in turns], dtype=torch.int64)
    advantages_T, returns_T = gae_turn(stream, gamma=gamma, lam=lam, whiten=False)
    torch.testing.assert_close(advantages_T, expected_K.repeat_interleave(sizes_K))
    torch.testing.assert_close(
        returns_T, (expected_K + as_turns.value_T).repeat_interleave(sizes_K)
    )


def test_a_truncated_episode_bootstraps_and_a_terminated_one_does_not():
    stream = TokenStream(
        reward_T=torch.tensor([1.0, 1.0]),
        value_T=torch.zeros(2),
        lengths_E=torch.tensor([1, 1]),
        terminated_E=torch.tensor([True, False]),
        # What a terminated episode would have been worth is never read.
        bootstrap_E=torch.tensor([float("nan"), 10.0]),
    )
    advantages_T, _ = gae(stream, gamma=0.5, lam=1.0, whiten=False)
    assert advantages_T.tolist() == [1.0, 6.0]
    with pytest.raises(StreamError, match="episode 1"):
        gae(dataclasses.replace(stream, bootstrap_E=None))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_inputs_are_computed_wide(dtype):
    torch.manual_seed(0)
    reward_T, value_T = torch.randn(2, 300).to(dtype)
    lengths_E = torch.tensor([300])
    narrow = gae(TokenStream(reward_T=reward_T, value_T=value_T, lengths_E=lengths_E))
    wide = gae(
        TokenStream(reward_T=reward_T.double(), value_T=value_T.double(), lengths_E=lengths_E)
    )
    assert narrow.advantages_T.dtype == narrow.returns_T.dtype == torch.float32
    assert wide.advantages_T.dtype == torch.float64
    torch.testing.assert_close(narrow.advantages_T, wide.advantages_T.float())


SHAPES = {
    "even": torch.full((200,), 1000),
    "one long episode": torch.tensor([200_000]),
    "one long among many short": torch.cat([torch.full((199,), 500), torch.tensor([100_500])]),
    "tiny episodes": torch.full((20_000,), 10),
}


@pytest.mark.parametrize("name", SHAPES)
def test_very_many_tokens_are_read_a_few_times_by_few_operations(name):
    """A loop over tensors of one token would need 200,000 operations."""
    stream = TokenStream(
        reward_T=torch.ones(200_000), value_T=torch.zeros(200_000), lengths_E=SHAPES[name]
    )
    with TensorWork() as work:
        gae(stream, gamma=0.99, lam=0.95)
    assert work.operations < 10_000
    assert work.numbers < 100 * 200_000

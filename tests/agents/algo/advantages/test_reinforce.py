from __future__ import annotations

import pytest
import torch
from hypothesis import given

from llm_gym_agents.algo import TokenStream, get_advantage
from tests.agents.algo import reference
from tests.agents.algo.strategies import FRACTIONS, examples, streams


@examples
@given(streams(), FRACTIONS)
def test_returns_are_the_discounted_rewards_to_go(stream: TokenStream, gamma: float) -> None:
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


@examples
@given(streams())
def test_remax_subtracts_the_greedy_score_from_each_reward_to_go(stream: TokenStream) -> None:
    out = get_advantage("remax")(stream)
    to_go_T = get_advantage("reinforce_plus_plus")(stream, whiten=False).advantages_T
    torch.testing.assert_close(out.advantages_T, to_go_T - stream.on_tokens(stream.greedy_scores_E))
    torch.testing.assert_close(out.returns_T, to_go_T)


def test_every_setting_has_an_effect() -> None:
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

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import TokenStream, get_advantage, group_ids
from tests.agents.algo import reference
from tests.agents.algo.strategies import examples, streams

CENTRED = ["grpo", "dr_grpo", "rloo", "opo", "gpg"]


def stream_of(
    scores: list[float], groups: list[int], lengths: list[int] | None = None
) -> TokenStream:
    lengths = lengths or [1] * len(scores)
    rewards = [s for s, n in zip(scores, lengths, strict=True) for s in [0.0] * (n - 1) + [s][:n]]
    return TokenStream(
        reward_T=torch.tensor(rewards),
        lengths_E=torch.tensor(lengths),
        group_E=torch.tensor(groups),
    )


@examples
@given(streams(max_length=6, max_episodes=8), st.sampled_from(CENTRED))
def test_matches_a_loop_over_the_groups(stream: TokenStream, name: str) -> None:
    lengths, groups = stream.lengths_E.tolist(), stream.group_E.tolist()
    scores = [sum(run) for run in reference.split(stream.reward_T.tolist(), lengths)]
    expected_E = torch.tensor(
        reference.group_scores(name, scores, lengths, groups), dtype=torch.float64
    )
    advantages_T, returns_T = get_advantage(name)(stream)
    expected_T = expected_E.repeat_interleave(stream.lengths_E)
    torch.testing.assert_close(advantages_T, expected_T, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(returns_T, stream.on_tokens(torch.tensor(scores).double()))


@examples
@given(streams(max_length=4, max_episodes=4, min_group=2))
def test_pass_at_k_matches_a_loop(stream: TokenStream) -> None:
    lengths, groups = stream.lengths_E.tolist(), stream.group_E.tolist()
    scores = stream.scores_E.tolist()
    expected = reference.group_scores("grpo_passk", scores, lengths, groups)
    advantages_T, _ = get_advantage("grpo_passk")(stream)
    expected_T = torch.tensor(expected, dtype=torch.float64).repeat_interleave(stream.lengths_E)
    torch.testing.assert_close(advantages_T, expected_T, rtol=1e-6, atol=1e-6)


def test_equal_scores_give_exactly_nothing() -> None:
    # A float32 mean of three 0.9 is off by 6e-8, and 6e-8 / 1e-6 would be a gradient.
    stream = stream_of([0.9, 0.9, 0.9], [0, 0, 0])
    for name in ("grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline"):
        assert get_advantage(name)(stream).advantages_T.tolist() == [0.0, 0.0, 0.0]


def test_one_that_is_left_alone_in_its_group_teaches_nothing() -> None:
    stream = stream_of([0.5, 1.0, 3.0], [7, 2, 2])
    for name in [*CENTRED, "grpo_passk"]:
        assert get_advantage(name)(stream).advantages_T[0].item() == 0.0, name
    assert get_advantage("rloo")(stream).advantages_T.tolist() == [0.0, -2.0, 2.0]


def test_an_episode_without_tokens_is_in_no_group() -> None:
    with_empty = stream_of([1.0, 3.0, 0.0], [0, 0, 0], [1, 1, 0])
    without = stream_of([1.0, 3.0], [0, 0])
    for name in [*CENTRED, "grpo_passk", "reinforce_plus_plus_baseline"]:
        spec = get_advantage(name)
        assert torch.equal(spec(with_empty).advantages_T, spec(without).advantages_T)


def test_pass_at_k_rewards_the_first_of_equals_nothing() -> None:
    spec = get_advantage("grpo_passk")
    assert spec(stream_of([3.0, 3.0, 1.0], [0, 0, 0])).advantages_T.tolist() == [0.0, 0.0, 0.0]


def test_every_setting_has_an_effect() -> None:
    stream = stream_of([0.0, 1.0, 5.0], [0, 0, 0], [1, 2, 3])
    for name, setting in (
        ("grpo", {"norm_by_std": False}),
        ("grpo", {"epsilon": 1.0}),
        ("grpo_passk", {"norm_by_std": False}),
        ("grpo_passk", {"epsilon": 1.0}),
        ("gpg", {"f_norm": 2.0}),
        ("reinforce_plus_plus_baseline", {"whiten": False}),
    ):
        spec = get_advantage(name)
        assert not torch.equal(spec(stream, **setting).advantages_T, spec(stream).advantages_T), (
            name,
            setting,
        )
    with pytest.raises(ConfigError, match="f_norm must be above 0"):
        get_advantage("gpg")(stream, f_norm=0.0)


def test_gpg_scales_up_by_the_share_of_episodes_that_scored() -> None:
    advantages_T, _ = get_advantage("gpg")(stream_of([0.0, 0.0, 0.0, 4.0], [0, 0, 0, 0]))
    assert advantages_T.tolist() == [-4.0, -4.0, -4.0, 12.0]


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
def test_any_labels_make_groups(index: object) -> None:
    assert group_ids(index).tolist() == [0, 1, 0]

"""Policy losses by their definitions, and weights where sampler and learner disagree."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import (
    StreamError,
    aggregate_loss,
    get_policy_loss,
    importance_weights,
    mismatch_metrics,
)
from tests.agents.algo import reference
from tests.agents.algo.reference import NUMBERS, examples, inputs_of

LOG_PROBS = st.floats(-30.0, 0.0, width=32)
EPISODES = torch.tensor([2, 0, 3])


def random_inputs():
    torch.manual_seed(0)
    dtype = torch.float64
    log_prob_T = (-3 * torch.rand(5, dtype=dtype)).requires_grad_()
    old_T = log_prob_T.detach() + 0.3 * torch.randn(5, dtype=dtype)
    return inputs_of(log_prob_T, old_T, torch.randn(5, dtype=dtype), EPISODES)


@examples
@given(
    st.lists(st.tuples(LOG_PROBS, LOG_PROBS, NUMBERS), min_size=1, max_size=20),
    st.sampled_from([(0.2, 0.2), (0.2, 0.28), (0.0, 0.5)]),
    st.sampled_from([None, 1.5, 3.0]),
)
def test_ppo_matches_its_definition(tokens, clip, dual):
    columns = [torch.tensor(c, dtype=torch.float64) for c in zip(*tokens, strict=True)]
    out = get_policy_loss("ppo")(inputs_of(*columns), clip_ratio=clip, dual_clip=dual)
    expected = [reference.ppo(*token, *clip, dual) for token in tokens]
    torch.testing.assert_close(out.loss_T, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "settings"), [("ppo", {}), ("ppo", {"clip_ratio": (0.1, 0.4), "dual_clip": None})]
)
def test_gradients_are_exact(name, settings):
    inputs = random_inputs()

    def loss(log_prob_T):
        again = inputs_of(log_prob_T, inputs.old_log_prob_T, inputs.advantages_T, EPISODES)
        return get_policy_loss(name)(again, **settings).loss_T

    assert gradcheck(loss, (inputs.log_prob_T,))


def test_gspo_has_the_gradient_of_the_ratio_of_whole_episodes():
    inputs = random_inputs()
    score_E = torch.tensor([1.5, 0.0, -0.7], dtype=torch.float64)
    inputs = inputs_of(
        inputs.log_prob_T, inputs.old_log_prob_T, score_E.repeat_interleave(EPISODES), EPISODES
    )
    loss_T = get_policy_loss("gspo")(inputs, clip_ratio=(1.0, 100.0)).loss_T
    loss = aggregate_loss(loss_T, EPISODES, "seq-mean-token-mean")
    (gradient_T,) = torch.autograd.grad(loss, inputs.log_prob_T)

    log_ratio_T = inputs.log_prob_T - inputs.old_log_prob_T
    ratio_E = torch.stack([log_ratio_T[:2].mean().exp(), log_ratio_T[2:].mean().exp()])
    direct = -(score_E[[0, 2]] * ratio_E).mean()
    (expected_T,) = torch.autograd.grad(direct, inputs.log_prob_T)
    torch.testing.assert_close(loss, direct)
    torch.testing.assert_close(gradient_T, expected_T)


def test_gspo_clips_an_episode_as_one():
    inputs = inputs_of(
        torch.tensor([0.0, -1.0, 0.0], requires_grad=True),
        torch.tensor([-1.0, 0.0, -1.0]),
        torch.ones(3),
        torch.tensor([2, 1]),
    )
    out = get_policy_loss("gspo")(inputs, clip_ratio=0.1)
    # The first episode's ratios e and 1/e cancel; the second's is clipped at 1.1.
    torch.testing.assert_close(out.loss_T.detach(), torch.tensor([-1.0, -1.0, -1.1]))
    assert out.metrics_T["policy/clip_fraction"].tolist() == [0.0, 0.0, 1.0]
    (gradient_T,) = torch.autograd.grad(out.loss_T.sum(), inputs.log_prob_T)
    assert gradient_T.tolist() == [-1.0, -1.0, 0.0]


def test_cispo_keeps_a_gradient_where_ppo_has_none():
    arguments = (torch.tensor([0.0, 0.0]), torch.tensor([-1.0, 1.0]), torch.tensor([2.0, -2.0]))
    gradients = {}
    for name in ("ppo", "cispo"):
        log_prob_T = arguments[0].clone().requires_grad_()
        out = get_policy_loss(name)(inputs_of(log_prob_T, *arguments[1:]), clip_ratio=0.2)
        (gradient_T,) = torch.autograd.grad(out.loss_T.sum(), log_prob_T)
        gradients[name] = gradient_T.tolist()
        assert out.metrics_T["policy/clip_fraction"].tolist() == [1.0, 1.0]
    inputs = inputs_of(torch.tensor([-6.0]), torch.tensor([-1.0]), torch.tensor([1.0]))
    unbounded = get_policy_loss("cispo")(inputs).loss_T  # below, by default
    assert unbounded.item() == pytest.approx(6 * math.exp(-5))
    assert gradients["ppo"] == [0.0, 0.0]
    assert gradients["cispo"] == pytest.approx([-2.0 * 1.2, 2.0 * 0.8])


@pytest.mark.parametrize("name", ["ppo", "gspo", "cispo"])
@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("gap", [-1e3, 1e3])
def test_an_absurd_ratio_gives_a_finite_loss_and_gradient(name, advantage, gap):
    log_prob_T = torch.tensor([-0.5 + gap], requires_grad=True)
    inputs = inputs_of(log_prob_T, torch.tensor([-0.5]), torch.tensor([advantage]))
    loss_T = get_policy_loss(name)(inputs).loss_T
    (gradient_T,) = torch.autograd.grad(loss_T.sum(), log_prob_T)
    assert loss_T.isfinite().all()
    assert gradient_T.isfinite().all()
    narrow = inputs_of(log_prob_T.detach().bfloat16(), torch.tensor([-0.5]), torch.ones(1))
    assert get_policy_loss(name)(narrow).loss_T.dtype == torch.float32


def test_wrong_shapes_missing_numbers_and_a_bad_cap_are_refused():
    with pytest.raises(StreamError, match="advantages_T"):
        inputs_of(torch.zeros(2), torch.zeros(2), torch.zeros(3), torch.tensor([2]))
    with pytest.raises(StreamError, match="1 of 2"):
        importance_weights(torch.zeros(2), torch.tensor([0.0, float("nan")]))
    with pytest.raises(StreamError, match="for"):
        importance_weights(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ConfigError, match="cap"):
        importance_weights(OLD, SAMPLER, cap=0.0)


OLD = torch.tensor([-1.0, -2.0, -1.0, -0.5])
SAMPLER = torch.tensor([-1.0, -1.5, -1.4, -5.0])


def test_weights_are_truncated_and_carry_no_gradient():
    old_T = OLD.clone().requires_grad_()
    weights_T = importance_weights(old_T, SAMPLER)
    assert weights_T.tolist() == pytest.approx([1.0, math.exp(-0.5), math.exp(0.4), 2.0])
    assert not weights_T.requires_grad
    assert importance_weights(OLD, SAMPLER, cap=1.2).max().item() == pytest.approx(1.2)
    impossible_T = torch.tensor([-math.inf])  # to the sampler
    assert importance_weights(OLD[:1], impossible_T).tolist() == [2.0]


def test_mismatch_metrics_measure_how_far_sampler_and_trainer_differ():
    metrics = {k: v.item() for k, v in mismatch_metrics(OLD, SAMPLER).items()}
    ratios = [1.0, math.exp(-0.5), math.exp(0.4), math.exp(4.5)]
    weights = [min(ratio, 2.0) for ratio in ratios]
    assert metrics == pytest.approx(
        {
            # k3 of one token is capped at 10, so the last one does not hide the others.
            "mismatch/kl": (math.exp(-0.5) - 0.5 + math.exp(0.4) - 1.4 + 10.0) / 4,
            "mismatch/log_prob_mean": (0.5 + 0.4 + 4.5) / 4,
            "mismatch/log_prob_max": 4.5,
            "mismatch/ratio_mean": sum(ratios) / 4,
            "mismatch/ratio_max": ratios[3],
            "mismatch/truncated": 0.25,
            "mismatch/ess": sum(weights) ** 2 / (4 * sum(w * w for w in weights)),
        },
        rel=1e-5,
    )
    assert mismatch_metrics(OLD, SAMPLER, cap=1.2)["mismatch/truncated"] == 0.5
    assert not any(mismatch_metrics(OLD[:0], SAMPLER[:0]).values()), "no tokens"

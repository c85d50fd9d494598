"""Stabilizers of an update: value scale, masked episodes."""

import copy

import pytest
import torch

from llm_gym_agents.learn import ppo as ppo_module
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.learn.stabilizers import MIN_STD, ValueScale, critic_gradient
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pack import Packer
from llm_gym_agents.rollouts.rollout_data import PackedInputs, RolloutData
from tests.agents.learn.test_ppo import check_same, data, gradients, make
from tests.agents.tiny import tiny_model

# --- a detached critic -----------------------------------------------------------------------


def test_a_detached_critic_learns_and_leaves_the_trunk_alone():
    found = {}
    for value_coef in (0.0, 0.5):
        torch.manual_seed(0)
        model = PolicyValueModel(tiny_model(), critic="detached")
        torch.nn.init.normal_(model.value_head.weight, std=0.1)
        found[value_coef] = gradients(make(model, value_coef=value_coef), data())
    trunk = [name for name in found[0.0] if name.startswith("lm.")]
    assert trunk
    assert all(found[0.0][name].equal(found[0.5][name]) for name in trunk)
    assert found[0.5]["value_head.weight"].abs().sum() > 0
    shared = gradients(make(value_coef=0.5), data())
    assert any(not shared[name].equal(found[0.5][name]) for name in trunk)


@pytest.mark.parametrize("factor", [0.0, 0.25, 1.0])
def test_the_gradient_of_a_shared_critic_reaches_the_trunk_by_a_factor(factor, monkeypatch):
    def trunk(value_coef, factor):
        torch.manual_seed(0)
        monkeypatch.setattr(ppo_module, "critic_gradient", lambda signal: factor)
        found = gradients(make(value_coef=value_coef, max_grad_norm=1e9), data())
        return {name: each for name, each in found.items() if name.startswith("lm.")}

    policy, both, some = trunk(0.0, 1.0), trunk(0.5, 1.0), trunk(0.5, factor)
    wanted = {name: policy[name].lerp(both[name], factor) for name in policy}
    check_same(some, wanted, rtol=1e-4)


@pytest.mark.parametrize(("won", "wanted"), [(0.1, 1), (0.8, 1), (0.9, 1 / 3), (0.95, 0), (1, 0)])
def test_where_nearly_all_is_won_the_critic_leaves_the_trunk_alone(won, wanted):
    signal = min(1.0, (won * (1 - won)) ** 0.5 / won)  # spread over mean
    assert critic_gradient(signal) == pytest.approx(wanted)


# --- values in units of the returns ----------------------------------------------------------


def test_rescaling_leaves_the_predicted_values_unchanged():
    torch.manual_seed(0)
    head = torch.nn.Linear(8, 1)
    scale, hidden = ValueScale(head), torch.randn(20, 8)
    before = head(hidden).squeeze(-1) * scale.std + scale.mean
    for returns in (torch.randn(50) * 30 + 100, torch.randn(50) - 4, torch.full((50,), 7.0)):
        scale.update(returns)
        now = scale.unscale(head(hidden).squeeze(-1))
        torch.testing.assert_close(now, before, atol=1e-3, rtol=1e-4)
        torch.testing.assert_close(scale.scale(now), head(hidden).squeeze(-1))


def test_mean_and_spread_are_those_of_the_returns():
    scale = ValueScale(torch.nn.Linear(2, 1))
    assert (scale.mean, scale.std) == (0.0, 1.0)
    scale.update(torch.tensor([1.0, 3.0]))
    assert (scale.mean, scale.std) == (2.0, 1.0)
    scale.update(torch.tensor([5.0, 7.0]))  # as if all four had come at once
    assert (scale.mean, scale.std) == (4.0, pytest.approx(5**0.5))
    alike = ValueScale(torch.nn.Linear(2, 1))
    alike.update(torch.full((3,), 2.0))
    assert alike.std == pytest.approx(MIN_STD)


def test_a_critic_in_its_own_units_learns_returns_of_any_size():
    """At rewards a thousand times larger a plain critic is still near 0; this one is not."""

    def off(**settings):
        """How far the mean value is from that of the returns, as a share of these."""
        torch.manual_seed(0)
        model = PolicyValueModel(tiny_model(), critic="detached")
        ppo, batch = make(model, value_learning_rate=0.1, **settings), data()
        batch.reward_T = (batch.reward_T + batch.turn_ends_T * 2.0) * 1000.0
        row = [ppo.update(batch) for _ in range(12)][-1]
        return abs(row["value/mean"] / row["value/target_mean"] - 1.0)

    assert off(normalise_values=True) < 0.1
    assert off() > 0.9


def test_advantages_and_metrics_are_in_true_units():
    rows = []
    for on in (True, False):
        torch.manual_seed(0)
        rows.append(make(normalise_values=on).update(data()))
    for name in ("value/mean", "value/target_mean", "value/explained_variance"):
        assert rows[0][name] == pytest.approx(rows[1][name]), name
    assert rows[0]["value/scale_mean"] == pytest.approx(rows[0]["value/target_mean"])


def test_old_values_and_targets_are_in_the_units_that_the_head_learns_in(monkeypatch):
    torch.manual_seed(0)
    ppo = make(normalise_values=True)
    seen = []

    def look(packer, batch, critic_only):
        now = ppo.scorer.score(packer).value_T  # of the head, in the units of after this batch
        seen.append((batch["value"].squeeze(-1), batch["value_target"].squeeze(-1), now))
        return PPO._epochs(ppo, packer, batch, critic_only)

    monkeypatch.setattr(ppo, "_epochs", look)
    for _ in range(2):
        ppo.update(data())
    for old, target, now in seen:
        torch.testing.assert_close(old, now, atol=1e-5, rtol=1e-4)
        assert target.abs().max() < 10.0
    assert seen[0][1].mean() == pytest.approx(0.0, abs=1e-5)
    assert seen[0][1].std(unbiased=False) == pytest.approx(1.0, abs=1e-4)


# --- episodes that are left out --------------------------------------------------------------


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
def test_masked_episodes_have_the_gradient_of_a_batch_without_them(aggregation):
    """Advantages are given, so that both see the same ones."""
    how = {"adv_estimator": "reinforce_plus_plus", "estimator_settings": {"whiten": False},
           "loss_agg": aggregation}  # fmt: skip
    torch.manual_seed(0)
    model = PolicyValueModel(tiny_model(), critic="none")
    whole = data(terminated=(True, True, True, True))
    whole.truncated_reply_E = torch.tensor([False, True, False, True])
    masked = gradients(make(copy.deepcopy(model), mask_truncated_replies=True, **how), whole)
    alone = gradients(make(copy.deepcopy(model), **how), only(whole, [0, 2]))
    check_same(masked, alone, rtol=1e-4)
    unmasked = gradients(make(copy.deepcopy(model), **how), whole)
    assert any(not unmasked[name].allclose(gradient) for name, gradient in alone.items())


def only(batch, episodes):
    """Return the batch of these episodes."""
    pack = Packer(batch).within(episodes, 10**6)[0]
    columns = {
        name: getattr(batch, name)[pack.index_T]
        for name in ("sampler_log_prob_T", "version_T", "turn_ends_T", "reward_T")
    } | {
        name: getattr(batch, name)[episodes]
        for name in ("sequences_E", "terminated_E", "group_E", "episode_E", "truncated_reply_E")
    }
    return RolloutData(
        **PackedInputs(*pack[:4])._asdict(),
        **columns,
        lengths_E=pack.lengths_M,
        bootstrap_E=pack.bootstrap_M,
        batch_size=[],
    )


def test_a_batch_of_truncated_replies_has_no_gradient():
    batch = data()
    batch.truncated_reply_E = torch.ones(4, dtype=torch.bool)
    ppo = make(mask_truncated_replies=True, entropy_coef=0.1)
    found = gradients(ppo, batch)
    assert all(not gradient.any() for gradient in found.values())

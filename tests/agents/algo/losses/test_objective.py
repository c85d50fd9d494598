"""The update's loss, with a tiny model, beside TorchRL's ``ClipPPOLoss`` used directly."""

import math

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import (
    PolicyInputs,
    StreamError,
    TokenObjective,
    aggregate_loss,
    get_policy_loss,
    make_clip_ppo_loss,
    token_weights,
    value_loss,
)

LENGTHS = torch.tensor([3, 1, 4, 2])
TOKENS = int(LENGTHS.sum())
LOSSES = ["ppo", "gspo", "cispo"]


class Trunk(nn.Module):
    """Ten states, five actions: enough to have gradients of every kind."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Embedding(10, 8), nn.Linear(8, 5)

    def forward(self, state_T, token_T):
        hidden_TH = self.body(state_T)
        log_p_TV = self.head(hidden_TH).log_softmax(-1)
        log_prob_T = log_p_TV.gather(-1, token_T[:, None]).squeeze(-1)
        return log_prob_T, -(log_p_TV.exp() * log_p_TV).sum(-1), hidden_TH


@pytest.fixture
def model():
    torch.manual_seed(0)
    trunk = TensorDictModule(
        Trunk(), in_keys=["state", "token"], out_keys=["token_log_prob", "token_entropy", "hidden"]
    )
    return trunk, TensorDictModule(nn.Linear(8, 1), in_keys=["hidden"], out_keys=["value"])


@pytest.fixture
def batch(model):
    torch.manual_seed(1)
    td = TensorDict(
        {"state": torch.randint(10, (TOKENS,)), "token": torch.randint(5, (TOKENS,))}, []
    )
    with torch.no_grad():
        log_prob_T = model[0](td.clone())["token_log_prob"]
    return td.update(
        {
            "old_log_prob": log_prob_T + 0.4 * torch.randn(TOKENS),
            "advantage": torch.randn(TOKENS, 1),
            "value_target": torch.randn(TOKENS, 1),
            "value": torch.randn(TOKENS, 1),
            "loss_weight": token_weights(LENGTHS),
            "lengths": LENGTHS,
        }
    )


def gradients(modules, loss):
    parameters = [p for module in modules for p in module.parameters()]
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


@pytest.mark.parametrize("dual_clip", [None, 1.3])
def test_the_ppo_objective_is_clip_ppo_loss_plus_a_dual_clip(model, batch, dual_clip):
    objective = TokenObjective(
        *model, policy_settings={"dual_clip": dual_clip}, entropy_coef=0.05, value_coef=0.7
    )
    loss, metrics = objective(batch)
    out = make_clip_ppo_loss(*model, entropy_coef=0.05, value_coef=0.7)(batch)
    policy_T, advantages_T = out["loss_objective"], batch["advantage"].squeeze(-1)
    if dual_clip is not None:
        bound_T = torch.where(advantages_T < 0, -dual_clip * advantages_T, float("inf"))
        policy_T = torch.minimum(policy_T, bound_T)
        assert metrics["policy/clip_fraction_lower"] > 0
    expected = (policy_T + out["loss_critic"] + out["loss_entropy"]).mean()
    torch.testing.assert_close(loss, expected)
    for mine, other in zip(gradients(model, loss), gradients(model, expected), strict=True):
        torch.testing.assert_close(mine, other)
    assert metrics["loss/value"].item() == pytest.approx(out["loss_critic"].mean().item())
    assert metrics["policy/entropy"].item() == pytest.approx(out["entropy"].item())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
def test_micro_batches_change_neither_gradient_nor_metrics(model, batch, name, aggregation):
    batch["loss_weight"] = token_weights(LENGTHS, aggregation)
    batch["ref_log_prob"] = batch["old_log_prob"] - 0.1
    batch["importance_weight"] = torch.rand(TOKENS)
    objective = TokenObjective(*model, policy_loss=name, entropy_coef=0.01, kl_coef=0.1)
    whole, metrics = objective(batch)
    total, added = torch.zeros(()), dict.fromkeys(metrics, 0.0)
    for tokens, episodes in ((slice(0, 4), slice(0, 2)), (slice(4, 10), slice(2, 4))):
        part = TensorDict(
            {key: value[tokens] for key, value in batch.items() if key != "lengths"}, []
        ).set("lengths", LENGTHS[episodes])
        loss, part_metrics = objective(part, tokens=TOKENS)
        total = total + loss
        added = {key: added[key] + value.item() for key, value in part_metrics.items()}
    torch.testing.assert_close(total, whole)
    for mine, other in zip(gradients(model, total), gradients(model, whole), strict=True):
        torch.testing.assert_close(mine, other)
    assert added == pytest.approx({k: v.item() for k, v in metrics.items()}, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_with_and_without_a_critic(model, batch, name):
    trunk, critic = model
    loss, metrics = TokenObjective(trunk, policy_loss=name)(batch)
    assert "loss/value" not in metrics
    assert not any(g.any() for g in gradients((critic,), loss))
    assert any(g.any() for g in gradients((trunk,), loss))
    loss, metrics = TokenObjective(trunk, critic, policy_loss=name)(batch)
    assert metrics["loss/value"] > 0
    assert any(g.any() for g in gradients((critic,), loss))


@pytest.mark.parametrize("name", LOSSES)
def test_the_policy_term_is_the_registered_loss(model, batch, name):
    _, metrics = TokenObjective(*model, policy_loss=name)(batch)
    with torch.no_grad():
        log_prob_T = model[0](batch.clone(False))["token_log_prob"]
    inputs = PolicyInputs(
        log_prob_T=log_prob_T,
        old_log_prob_T=batch["old_log_prob"],
        advantages_T=batch["advantage"].squeeze(-1),
        lengths_E=LENGTHS,
    )
    expected = aggregate_loss(get_policy_loss(name)(inputs).loss_T, LENGTHS)
    assert metrics["loss/policy"].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_the_kl_metric_is_of_the_new_policy_from_the_old(model, batch, name):
    with torch.no_grad():
        log_prob_T = model[0](batch.clone(False))["token_log_prob"]
    batch["old_log_prob"] = log_prob_T - math.log(2.0)  # each token has become twice as likely
    _, metrics = TokenObjective(*model, policy_loss=name)(batch)
    assert metrics["policy/kl_k3"].item() == pytest.approx(2 - 1 - math.log(2.0), rel=1e-5)


def test_every_setting_and_optional_entry_has_an_effect(model, batch):
    batch["ref_log_prob"] = batch["old_log_prob"] - 0.3
    before = batch.clone()
    plain = TokenObjective(*model)(batch)[0].item()
    assert (batch == before).all(), "the batch is left as it was"
    for settings in (
        {"policy_loss": "cispo"},
        {"policy_settings": {"clip_ratio": (0.2, 0.9)}},
        {"policy_settings": {"dual_clip": 1.01}},
        {"value_coef": 0.3},
        {"entropy_coef": 0.1},
        {"kl_coef": 0.1},
    ):
        assert TokenObjective(*model, **settings)(batch)[0].item() != plain, settings
    for key, value in (("importance_weight", 2.0), ("loss_weight", 1.0)):
        changed = batch.clone().set(key, torch.full((TOKENS,), value))
        assert TokenObjective(*model)(changed)[0].item() != plain, key


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"policy_loss": "gsbo"}, "gspo"),
        ({"policy_loss": "gspo", "policy_settings": {"dual_clip": 3.0}}, "dual_clip"),
        ({"policy_settings": {"clip_ratio": (1.0, 0.2)}}, "clip_ratio"),
    ],
)
def test_wrong_settings_are_refused(model, settings, what):
    with pytest.raises(ConfigError, match=what):
        TokenObjective(*model, **settings)


def test_wrong_shapes_and_ranges_are_refused():
    with pytest.raises(StreamError, match="shape"):
        value_loss(torch.zeros(2), torch.zeros(1), torch.zeros(2))
    with pytest.raises(ConfigError, match="cliprange_value"):
        value_loss(torch.zeros(2), torch.zeros(2), torch.zeros(2), cliprange_value=0)


def test_value_targets_carry_no_gradient_and_narrow_values_are_widened():
    value_T = torch.tensor([1.0], dtype=torch.bfloat16, requires_grad=True)
    targets_T = torch.tensor([2.0], requires_grad=True)
    out = value_loss(value_T, targets_T, value_T.detach())
    assert out.loss_T.dtype == torch.float32
    out.loss_T.sum().backward()
    assert targets_T.grad is None

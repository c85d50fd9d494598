"""``TokenObjective``: computes the loss of a packed batch for the trainer's update.

One forward pass (trunk, then critic) gives every term as a loss per token: policy loss, value loss,
entropy bonus and KL to a reference. Each is multiplied by ``loss_weight`` (see ``token_weights``)
and summed, so the gradients of micro-batches add up.

For ``ppo`` the policy, value and entropy terms are those of TorchRL's ``ClipPPOLoss``; other
policy losses come from the registry.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn
from torchrl.objectives import ClipPPOLoss

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio, kl_loss
from llm_gym_agents.algo.losses.mismatch import importance_weights
from llm_gym_agents.algo.losses.policy_loss import (
    LOG_RATIO_LIMIT,
    ClipRange,
    ClipRatio,
    PolicyInputs,
    TokenLoss,
    bound_negative,
    get_policy_loss,
)
from llm_gym_agents.algo.tensor_ops import StreamError, at_least_float32

Metrics = dict[str, Tensor]
SEEN = "log_prob_T"
"""Metrics key of an on-policy batch: its log-probs, one per token."""


class TokenObjective(nn.Module):
    """The loss of a packed batch, any registered policy loss, with or without a critic.

    A batch is a TensorDict (of batch size ``[]`` or ``[T]``) with the inputs of the trunk and:

    - ``token`` [T], ``old_log_prob`` [T] of the trainer's pass before the update; without the
      latter, this pass itself is the old one (on-policy), and ``sampler_log_prob`` [T] is optional;
    - ``advantage`` [T, 1] and ``loss_weight`` [T];
    - with a critic ``value_target`` [T, 1] and ``value`` [T, 1] from before the update;
    - ``importance_weight`` [T] if the sampler's log-probs differ (see ``importance_weights``);
    - ``ref_log_prob`` [T] if ``kl_coef`` is above 0;
    - ``sampler_log_prob`` [T] and ``version`` [T] for losses that read them;
    - ``lengths`` [E], the sampled tokens of each episode.

    Args:
        trunk: Writes ``token_log_prob`` [T] and ``token_entropy`` [T].
        critic: Writes ``value`` [T, 1] from what the trunk wrote; None for no critic.
        policy_loss: The name of a registered policy loss.
        policy_settings: Its settings, such as ``{"clip_ratio": (0.2, 0.28)}``.
        value_coef: Weight of ½ (V - R)².
        entropy_coef: Weight of the entropy bonus.
        kl_coef: Weight of the KL to the reference.
        importance_cap: Largest weight of a token, for a batch that is read on-policy.
    """

    def __init__(
        self,
        trunk: TensorDictModuleBase,
        critic: TensorDictModuleBase | None = None,
        *,
        policy_loss: str = "ppo",
        policy_settings: Mapping[str, Any] | None = None,
        value_coef: float = 1.0,
        entropy_coef: float = 0.0,
        kl_coef: float = 0.0,
        importance_cap: float | None = None,
    ) -> None:
        super().__init__()
        self.spec = get_policy_loss(policy_loss)
        given = dict(policy_settings or {})
        self.spec.check_settings(given)
        self.policy_settings = {**self.spec.settings, **given}
        self.trunk, self.critic = trunk, critic
        self.value_coef, self.importance_cap = value_coef, importance_cap
        self.entropy_coef, self.kl_coef = entropy_coef, kl_coef
        self._clip_ppo: ClipPPOLoss | None = None
        if policy_loss == "ppo":
            # The critic has run by then; this only moves its output to where TorchRL looks.
            moved = TensorDictModule(nn.Identity(), in_keys=["new_value"], out_keys=["value"])
            self._clip_ppo = make_clip_ppo_loss(
                None,
                None if critic is None else moved,
                clip_ratio=self.policy_settings["clip_ratio"],
                entropy_coef=entropy_coef,
                value_coef=value_coef,
            )

    def forward(
        self, batch: TensorDictBase, *, tokens: int | None = None
    ) -> tuple[Tensor, Metrics]:
        """The loss of ``batch`` and detached metrics.

        Args:
            batch: See the class. It is not changed.
            tokens: Tokens of the whole optimizer step. Metrics are sums divided by it, so those of
                micro-batches add up to means over the step. None takes the tokens of ``batch``.
        """
        data = self.trunk(batch.clone(recurse=False))
        if "old_log_prob" not in data:  # on-policy: no update since the tokens were sampled
            data["old_log_prob"] = old_T = data["token_log_prob"].detach()
            sampler_T, cap = data.get("sampler_log_prob", None), self.importance_cap
            if sampler_T is not None and cap is not None:
                weight_T = importance_weights(old_T, sampler_T, cap=cap, checked=True)
                data["importance_weight"] = weight_T
        if self.critic is not None:
            data["new_value"] = self.critic(data.clone(recurse=False))["value"]
        terms, metrics_T = self._all_terms(data)
        # In addition to ``policy/kl``, an estimate that is never negative, for early stopping.
        moved_T = (data["token_log_prob"] - data["old_log_prob"]).detach()
        metrics_T["policy/kl_k3"] = k3_of_log_ratio(at_least_float32(moved_T))
        importance_T = data.get("importance_weight", None)
        if importance_T is not None:
            terms["loss/policy"] = terms["loss/policy"] * importance_T
        if self.kl_coef:
            kl_T = kl_loss(data["token_log_prob"], data["ref_log_prob"])
            terms["loss/kl"] = self.kl_coef * kl_T
            metrics_T["policy/ref_kl"] = kl_T.detach()
        weights_T = data["loss_weight"]
        losses = {name: (weights_T * term_T).sum() for name, term_T in terms.items()}
        loss = torch.stack(list(losses.values())).sum()
        metrics = {name: term.detach() for name, term in losses.items()}
        share = 1.0 / max(tokens or weights_T.numel(), 1)
        metrics |= {name: values_T.sum() * share for name, values_T in metrics_T.items()}
        if "old_log_prob" not in batch:
            metrics[SEEN] = data["old_log_prob"]
        return loss, metrics

    def set_entropy_coef(self, weight: float) -> None:
        self.entropy_coef = weight
        if self._clip_ppo is not None:
            self._clip_ppo.entropy_coeff.fill_(weight)

    def _all_terms(self, data: TensorDictBase) -> tuple[dict[str, Tensor], Metrics]:
        if self._clip_ppo is None:
            return self._terms(data)
        out = self._clip_ppo(data)
        objective_T, _ = bound_negative(
            out["loss_objective"], data["advantage"].squeeze(-1), self.policy_settings["dual_clip"]
        )
        terms = {"loss/policy": objective_T, "loss/entropy": out["loss_entropy"]}
        if self.critic is not None:
            # With a weight of 0, TorchRL leaves out the value loss.
            terms["loss/value"] = out.get("loss_critic", torch.zeros_like(objective_T))
        # TorchRL's clip fraction counts all ratios outside the range; ours only stopped gradients.
        with torch.no_grad():
            _, metrics_T = self._terms(data)
        return terms, metrics_T

    def _terms(self, data: TensorDictBase) -> tuple[dict[str, Tensor], Metrics]:
        inputs = PolicyInputs(
            log_prob_T=data["token_log_prob"],
            old_log_prob_T=data["old_log_prob"],
            advantages_T=data["advantage"].squeeze(-1),
            lengths_E=data["lengths"],
            sampler_log_prob_T=data.get("sampler_log_prob", None),
            ref_log_prob_T=data.get("ref_log_prob", None),
            value_T=None if "value" not in data else data["value"].squeeze(-1),
            entropy_T=data["token_entropy"].detach(),
            version_T=data.get("version", None),
        )
        policy = self.spec(inputs, **self.policy_settings)
        entropy_T = data["token_entropy"]
        terms = {"loss/policy": policy.loss_T, "loss/entropy": -self.entropy_coef * entropy_T}
        metrics_T = dict(policy.metrics_T) | {"policy/entropy": entropy_T.detach()}
        if self.critic is not None:
            value = value_loss(
                data["new_value"].squeeze(-1),
                data["value_target"].squeeze(-1),
                data["value"].squeeze(-1),
                cliprange_value=None,
            )
            terms["loss/value"] = self.value_coef * value.loss_T
            metrics_T |= value.metrics_T
        return terms, metrics_T


# --- the critic's loss -----------------------------------------------------------------


def value_loss(
    value_T: Tensor, returns_T: Tensor, old_value_T: Tensor, *, cliprange_value: float | None = 0.5
) -> TokenLoss:
    """½ max((V - R)², (clip(V) - R)²) of each token, V clipped to within a range of the old V.

    Args:
        value_T: Values of the critic in training.
        returns_T: Targets from before the update.
        old_value_T: Values from before the update.
        cliprange_value: How far V may move from the old V; None for no clip.
    """
    if not value_T.shape == returns_T.shape == old_value_T.shape:
        raise StreamError(
            "values, returns and old values must have one shape, "
            f"got {tuple(value_T.shape)}, {tuple(returns_T.shape)} and "
            f"{tuple(old_value_T.shape)}"
        )
    if cliprange_value is not None and not cliprange_value > 0.0:
        raise ConfigError(
            f"cliprange_value must be above 0, got {cliprange_value}; None turns the clip off"
        )
    value_T = at_least_float32(value_T)
    returns_T = at_least_float32(returns_T).detach()
    plain_T = (value_T - returns_T).square()
    if cliprange_value is None:
        return TokenLoss(0.5 * plain_T, {})
    old_T = at_least_float32(old_value_T).detach()
    near_T = value_T.clamp(old_T - cliprange_value, old_T + cliprange_value)
    clipped_T = (near_T - returns_T).square()
    acts_T = (clipped_T > plain_T).to(plain_T)
    return TokenLoss(0.5 * torch.maximum(plain_T, clipped_T), {"value/clip_fraction": acts_T})


# --- TorchRL's ClipPPOLoss ------------------------------------------------------------


class TokenDistribution(torch.distributions.Distribution):
    """A distribution that returns given log-probs and entropies of the sampled tokens.

    The log-prob is clamped to within ±20 of the old one: beyond it the ratio overflows float32, and
    the gradient of a token with advantage 0 becomes NaN.
    """

    arg_constraints = {}

    def __init__(self, log_prob: Tensor, entropy: Tensor, old_log_prob: Tensor) -> None:
        old_T = at_least_float32(old_log_prob)
        self._log_prob_T = at_least_float32(log_prob).clamp(
            old_T - LOG_RATIO_LIMIT, old_T + LOG_RATIO_LIMIT
        )
        self._entropy_T = at_least_float32(entropy)
        super().__init__(batch_shape=log_prob.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._log_prob_T

    def entropy(self) -> Tensor:
        return self._entropy_T


def make_clip_ppo_loss(
    trunk: TensorDictModuleBase | None,
    critic: TensorDictModuleBase | None,
    *,
    clip_ratio: ClipRatio = 0.2,
    entropy_coef: float = 0.0,
    value_coef: float = 1.0,
) -> ClipPPOLoss:
    """A ``ClipPPOLoss`` that reads packed tokens and gives one loss per token.

    Its batch holds ``token`` [T], ``old_log_prob`` [T], ``advantage`` [T, 1], and with a critic
    ``value_target`` and the old ``value`` [T, 1]. Only this function maps these names to TorchRL's
    (``action``, ``sample_log_prob``, ``state_value``).

    Args:
        trunk: Writes ``token_log_prob`` [T] and ``token_entropy`` [T], and whatever the critic
            reads. None if the batch holds both already.
        critic: Writes ``value`` [T, 1] from what the trunk wrote, so that one forward pass
            serves both. None to train without a critic.
        clip_ratio: One number, or ``(low, high)``.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of ½ (V - R)².
    """
    clip = ClipRange.of(clip_ratio)
    if clip.low >= 1.0:
        raise ConfigError(
            f"ClipPPOLoss needs a low end of clip_ratio below 1, got {clip_ratio}; "
            "0.999 is as good as no lower bound"
        )
    head = ProbabilisticTensorDictModule(
        in_keys={
            "log_prob": "token_log_prob",
            "entropy": "token_entropy",
            "old_log_prob": "old_log_prob",
        },
        out_keys=["token"],
        distribution_class=TokenDistribution,
        return_log_prob=True,
        log_prob_key="old_log_prob",
    )
    modules = [head] if trunk is None else [trunk, head]
    loss = ClipPPOLoss(
        ProbabilisticTensorDictSequential(*modules),
        critic,
        clip_epsilon=clip.low if clip.low == clip.high else tuple(clip),
        entropy_coeff=entropy_coef,
        critic_coeff=None if critic is None else 0.5 * value_coef,
        loss_critic_type="l2",
        # Whitening is done before, over the whole batch.
        normalize_advantage=False,
        reduction="none",
        # Keeps the modules as they are, which DDP and FSDP need.
        functional=False,
    )
    loss.set_keys(action="token", sample_log_prob="old_log_prob", value="value")
    return loss

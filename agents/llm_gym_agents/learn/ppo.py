"""One PPO update, from a batch of episodes to new weights.

Read ``PPO.update`` first: score the batch with the weights that are about to change, turn
rewards into advantages, then take a few clipped steps. It holds no paths, loggers or engines; a
test can call it with three episodes.

Shapes: T sampled tokens of all episodes, E episodes, M episodes of a pack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from llm_gym.errors import LLMGymError
from llm_gym_agents import algo
from llm_gym_agents.batch.pack import Pack, Packer
from llm_gym_agents.batch.ppo_batch import PPOBatch
from llm_gym_agents.batch.rollout_data import NO_POSITION, RolloutData
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.learn.ppo_settings import estimator_settings, make_optimizer, policy_settings

Metrics = dict[str, float]


class NotFiniteError(LLMGymError, ArithmeticError):
    """A loss or gradient is NaN or infinite. ``batch`` is the micro-batch that showed it."""

    batch: TensorDict | None = None

    def saved(self, place: Path) -> NotFiniteError:
        """Write the batch to ``place``; return the error that also says where it is."""
        assert self.batch is not None
        place.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.batch.items()}, place)
        told = NotFiniteError(f"{self}; the batch is in {place}")
        told.batch = self.batch
        return told


class Scores(NamedTuple):
    """What the weights before the update say of a batch."""

    log_prob_T: Tensor
    value_T: Tensor | None
    bootstrap_E: Tensor | None
    ref_log_prob_T: Tensor | None


class PPO:
    """Trains a model on batches of episodes.

    Args:
        model: Trained in place.
        config: What the update does; see ``TrainingConfig``.
        reference: The policy that a KL penalty pulls towards; None where none is used.
        norm_length: Most tokens of an episode, for the aggregation that divides by it.
    """

    def __init__(
        self,
        model: PolicyValueModel,
        config: TrainingConfig,
        reference: PolicyValueModel | None = None,
        *,
        norm_length: float | None = None,
    ) -> None:
        self.model, self.config, self.reference = model, config, reference
        self._norm_length = norm_length
        self.estimator = algo.get_advantage(config.adv_estimator)
        self.kl_control = algo.KLController(
            config.kl_coef, config.target_kl, config.adaptive_kl, horizon=config.kl_horizon
        )
        self.objective = algo.TokenObjective(
            _trunk(model),
            _critic(model),
            policy_loss=config.policy_loss,
            policy_settings=policy_settings(config),
            cliprange_value=config.value_clip,
            value_coef=config.value_coef,
            entropy_coef=config.entropy_coef,
            kl_coef=config.kl_coef if config.use_kl_in_loss else 0.0,
            kl_kind=config.kl_kind,
        ).to(model.device)
        self._aggregation = config.loss_agg or self.objective.spec.aggregation
        self.optimizer = make_optimizer(model, config)
        self.trained: dict[str, Tensor] = {}
        """What the last update made of each sampled token, as records name it."""

    def update(
        self, data: RolloutData, *, rate: float = 1.0, critic_only: bool = False,
        greedy_scores_E: Tensor | None = None,
    ) -> Metrics:  # fmt: skip
        """Train on ``data`` and return metrics.

        Args:
            data: Complete episodes.
            rate: Factor on the learning rate, from a schedule.
            critic_only: Leave the policy alone, while a fresh critic warms up.
            greedy_scores_E: Score of a greedy episode per start, for ``remax``.
        """
        packer = Packer(data.to(self.model.device))
        data = packer.data
        # Old log-probs are the trainer's own, by the arithmetic that the update will use. Against
        # the sampler's, whose kernels round otherwise, ratios would not begin at 1.
        scores = self.score(packer)
        reward_T, kl_metrics = self._rewards(data, scores)
        # Advantages of the whole batch at once: whitening and groups need all of it, and values
        # that change while they are used would chase themselves.
        stream = _stream(data, reward_T, scores, greedy_scores_E)
        advantages = self.estimator(stream, **estimator_settings(self.estimator, self.config))
        batch = self._batch(data, scores, advantages)
        self.trained = _trained(data, scores, advantages)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_lr"] * rate
        if self.config.use_kl_in_loss:
            self.objective.kl_coef = self.kl_control.kl_coef
        metrics = self._epochs(packer, batch, critic_only)
        if self.config.use_kl_in_loss and not self.config.use_kl_in_reward:
            kl_metrics = {
                "kl/reference": metrics["policy/ref_kl"],
                "kl/coef": self.objective.kl_coef,
            }
            self.kl_control.update(metrics["policy/ref_kl"], n_steps=len(data.lengths_E))
        return metrics | kl_metrics | _critic_metrics(scores, advantages)

    @torch.no_grad()
    def score(self, packer: Packer) -> Scores:
        """Read the whole batch once with the current weights."""
        data, model = packer.data, self.model
        log_prob_T = torch.zeros_like(data.reward_T)
        value_T, bootstrap_E, ref_T = None, None, None
        if model.value_head is not None:
            value_T = torch.zeros_like(log_prob_T)
            bootstrap_E = value_T.new_zeros(data.lengths_E.shape)
        if self.reference is not None:
            ref_T = torch.zeros_like(log_prob_T)
        everything = range(len(data.lengths_E))
        for pack in packer.within(everything, self.config.micro_batch_tokens):
            cut_M = pack.bootstrap_M != NO_POSITION
            found = model(*pack[:4], pack.bootstrap_M[cut_M], entropy=False)
            log_prob_T[pack.index_T] = found.log_prob_T
            if value_T is not None and bootstrap_E is not None:
                value_T[pack.index_T] = found.value_T
                bootstrap_E[pack.episodes_M[cut_M]] = found.bootstrap_B
            if self.reference is not None and ref_T is not None:
                ref_T[pack.index_T] = self.reference(*pack[:4], entropy=False).log_prob_T
        return Scores(log_prob_T, value_T, bootstrap_E, ref_T)

    def _rewards(self, data: RolloutData, scores: Scores) -> tuple[Tensor, Metrics]:
        """Return rewards per token, less the KL penalty where that is part of the reward."""
        if not self.config.use_kl_in_reward or scores.ref_log_prob_T is None:
            return data.reward_T, {}
        used = self.kl_control.kl_coef
        reward_T, kl = algo.kl_in_rewards(
            data.reward_T,
            scores.log_prob_T,
            scores.ref_log_prob_T,
            data.lengths_E,
            kl_coef=used,
        )
        self.kl_control.update(kl, n_steps=len(data.lengths_E))
        return reward_T, {"kl/reference": float(kl), "kl/coef": used}

    def _batch(self, data: RolloutData, scores: Scores, advantages: algo.Advantages) -> TensorDict:
        """Return what the update reads of every token of the batch."""
        fields = {
            "old_log_prob": scores.log_prob_T,
            "advantage": advantages.advantages_T.unsqueeze(-1),
        }
        if scores.value_T is not None:
            fields["value"] = scores.value_T.unsqueeze(-1)
            fields["value_target"] = advantages.returns_T.unsqueeze(-1)
        if scores.ref_log_prob_T is not None:
            fields["ref_log_prob"] = scores.ref_log_prob_T
        sampler_T = data.sampler_log_prob_T
        self._mismatch = {
            name: float(value)
            for name, value in algo.mismatch_metrics(scores.log_prob_T, sampler_T).items()
        }
        if self.config.importance_cap is not None:
            fields["importance_weight"] = algo.importance_weights(
                scores.log_prob_T, sampler_T, cap=self.config.importance_cap
            )
        return TensorDict(fields, [data.tokens])

    def _epochs(self, packer: Packer, batch: TensorDict, critic_only: bool) -> Metrics:
        sums: dict[str, float] = defaultdict(float)
        steps = epochs = 0
        for _ in range(self.config.ppo_epochs):
            epochs += 1
            kl = 0.0
            for episodes in self._mini_batches(len(packer.ids_E)):
                metrics = self._step(packer, batch, episodes, critic_only)
                for name, value in metrics.items():
                    sums[name] += value
                steps += 1
                kl = max(kl, metrics["policy/kl_k3"])
            # By the worst mini-batch: a mean would let one run away while the others stand still.
            limit = self.config.kl_early_stop
            if limit is not None and kl > limit:
                break
        means = {name: value / steps for name, value in sums.items()}
        return means | self._mismatch | {"train/epochs": epochs, "train/steps": steps}

    def _mini_batches(self, episodes: int) -> Iterator[list[int]]:
        """Yield every episode once, some at a time, in random order if they are shuffled."""
        order = torch.arange(episodes)
        if self.config.shuffle:
            order = torch.randperm(episodes)
            # TorchRL's SamplerWithoutReplacement, which dealt the batches of every published run,
            # draws the next pass's order as well. Without that draw their numbers would change.
            torch.randperm(episodes)
        for some in order.split(self.config.mini_batch_size):
            yield some.tolist()

    def _step(
        self, packer: Packer, batch: TensorDict, episodes: list[int], critic_only: bool
    ) -> Metrics:
        """Take one optimizer step on ``episodes``, micro-batch by micro-batch."""
        lengths_M = packer.data.lengths_E[episodes]
        # Of the whole step, not of a micro-batch: then any cut gives the same gradient.
        counts = algo.BatchCounts.of(lengths_M)
        metrics: dict[str, float] = defaultdict(float)
        self.optimizer.zero_grad(set_to_none=True)
        for pack in packer.within(episodes, self.config.micro_batch_tokens):
            weights_T = algo.token_weights(
                pack.lengths_M, self._aggregation, counts=counts, norm_length=self._norm_length
            )
            micro = _micro(pack, batch, weights_T)
            loss, terms = self.objective(micro.to_tensordict(), tokens=counts.tokens)
            self._guard(loss, micro, "loss")
            loss.backward()
            for name, value in terms.items():
                metrics[name] += float(value)
        if critic_only:  # a shared trunk is the policy's: its critic learns through the head alone
            for parameter in self._policy_parameters():
                parameter.grad = None
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        # Before the step: weights that are not finite could not be taken back.
        self._guard(norm, micro, "gradient")
        self.optimizer.step()
        return metrics | {"train/grad_norm": float(norm)}

    def _policy_parameters(self) -> Iterator[nn.Parameter]:
        return iter(self.model.lm.parameters())

    def _guard(self, value: Tensor, micro: PPOBatch, what: str) -> None:
        if bool(torch.isfinite(value)):
            return
        error = NotFiniteError(
            f"the {what} must be finite, got {value.item()}; nothing was stepped. Lower the "
            "learning rate, or look at the batch"
        )
        error.batch = micro.detach().to_tensordict()
        raise error


def _trained(data: RolloutData, scores: Scores, advantages: algo.Advantages) -> dict[str, Tensor]:
    """Return what a record shows of each sampled token.

    The ratio is that of the weights that are trained, before their update, to those that sampled.
    """
    found = {
        "ratios": (scores.log_prob_T - data.sampler_log_prob_T).exp(),
        "advantages": advantages.advantages_T,
    }
    return found if scores.value_T is None else found | {"values": scores.value_T}


def _micro(pack: Pack, batch: TensorDict, weights_T: Tensor) -> PPOBatch:
    return PPOBatch(
        **dict(batch[pack.index_T].items()),
        ids=pack.ids_S,
        sequence_lengths=pack.sequence_lengths_Q,
        position=pack.position_T,
        token=pack.token_T,
        lengths=pack.lengths_M,
        loss_weight=weights_T,
        batch_size=[],
    )


def _stream(
    data: RolloutData, reward_T: Tensor, scores: Scores, greedy_scores_E: Tensor | None
) -> algo.TokenStream:
    has_critic = scores.value_T is not None
    return algo.TokenStream(
        reward_T=reward_T,
        lengths_E=data.lengths_E,
        value_T=scores.value_T,
        turn_ends_T=data.turn_ends_T,
        terminated_E=data.terminated_E if has_critic else None,
        bootstrap_E=scores.bootstrap_E,
        group_E=data.group_E,
        greedy_scores_E=None if greedy_scores_E is None else greedy_scores_E.to(reward_T.device),
    )


def _trunk(model: PolicyValueModel) -> TensorDictModule:
    """Return the model as the objective reads it: one call, whose value is there for the critic."""

    def read(*inputs: Tensor) -> tuple[Tensor, ...]:
        scores = model(*inputs)
        found = (scores.log_prob_T, scores.entropy_T)
        return found if scores.value_T is None else (*found, scores.value_T.unsqueeze(-1))

    written = ["token_log_prob", "token_entropy"]
    return TensorDictModule(
        read,
        in_keys=["ids", "sequence_lengths", "position", "token"],
        out_keys=written if model.value_head is None else [*written, "token_value"],
    )


def _critic(model: PolicyValueModel) -> TensorDictModule | None:
    if model.value_head is None:
        return None
    return TensorDictModule(nn.Identity(), in_keys=["token_value"], out_keys=["value"])


def _critic_metrics(scores: Scores, advantages: algo.Advantages) -> Metrics:
    if scores.value_T is None:
        return {}
    target_T, error_T = advantages.returns_T, advantages.returns_T - scores.value_T
    spread = float(target_T.var()) if len(target_T) > 1 else 0.0
    explained = 1.0 - float(error_T.var()) / spread if spread > 0 else 0.0
    return {
        "value/explained_variance": explained,
        "value/mean": float(scores.value_T.mean()),
        "value/target_mean": float(target_T.mean()),
    }

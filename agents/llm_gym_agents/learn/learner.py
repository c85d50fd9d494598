"""``Learner``: model, optimizer and PPO behind one call.

``update(data)`` trains on a batch and returns metrics; ``weights()`` is what an engine is to be
given after it; ``state()`` is what a checkpoint keeps beside the language model. Arguments and
results are plain data, and nothing here knows a trainer: a learner may as well live in another
process.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from llm_gym.errors import ConfigError
from llm_gym_agents import algo
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.checkpoint import (
    CheckpointError,
    Part,
    module_state,
    optimizer_state,
    set_module_state,
    set_optimizer_state,
)
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.ppo import PPO, Metrics
from llm_gym_agents.learn.scoring import Reference
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.model.cuda_graphs import can_capture, is_launch_bound
from llm_gym_agents.model.head import Entropy
from llm_gym_agents.model.policy_value import PolicyValueModel, TokenScores
from llm_gym_agents.model.precision import (
    allow_tf32,
    compute_dtype,
    keep_trained_in_float32,
    without_dropout,
)
from llm_gym_agents.model.self_check import check_packed_reading
from llm_gym_agents.model.weights import adapted_layers, plain_lm, served_weights


class Learner:
    """Trains a language model on batches of episodes.

    Args:
        config: Every setting of the run.
        lm: Trained in place.
        ranks: The processes that learn together. Each has a learner of its own, made of the same
            model, and all of them are called alike.
    """

    def __init__(
        self, config: ConfigStore, lm: PreTrainedModel, ranks: SingleProcess = SINGLE_PROCESS
    ) -> None:
        self.lm, self.ranks = lm, ranks
        self.estimator = algo.get_advantage(config.training.adv_estimator)
        critic = config.model.critic if self.estimator.needs_critic else "none"
        temperature = config.inference.temperature
        keep_trained_in_float32(lm)
        allow_tf32(lm.device)
        self.model = PolicyValueModel(
            lm,
            critic=critic,
            temperature=temperature,
            compute_dtype=compute_dtype(config.model.dtype, lm.device),
            kernel=config.model.logprob_kernel,
        )
        without_dropout(self.model)
        check_packed_reading(lm, self.model.compute_dtype)
        self.reference = _frozen_copy(config, self.model)
        """A copy of the policy that training began with; None with LoRA, whose base is that."""
        for each in (self.model, self.reference):
            if each is not None:
                ranks.shard(each, self.model.compute_dtype)
        self.ppo = PPO(
            self.model,
            config.training,
            self._reference(config),
            norm_length=max_episode_tokens(config),
            ranks=ranks,
        )

    @property
    def device(self) -> torch.device:
        """Where it learns."""
        return self.model.device

    def update(
        self,
        data: RolloutData,
        *,
        rate: float = 1.0,
        critic_only: bool = False,
        greedy_scores_E: Tensor | None = None,
        recorded: bool = False,
    ) -> Metrics:
        """Train on ``data`` and return metrics; see ``PPO.update``."""
        return self.ppo.update(
            data,
            rate=rate,
            critic_only=critic_only,
            greedy_scores_E=greedy_scores_E,
            recorded=recorded,
        )

    def use_cuda_graphs(self, wanted: bool | None, *, engine_sleeps: bool = False) -> None:
        """Record passes on a GPU if that is ``wanted``, or with None where it pays and fits."""
        can = can_capture(self.model, self.model.compute_dtype)
        if wanted is None:  # an engine that has to sleep wants the memory that graph_caches keep
            wanted = can and is_launch_bound(self.lm) and not engine_sleeps
        if wanted and not can:
            raise ConfigError(
                "model.cuda_graphs needs every weight on one GPU, bfloat16 arithmetic, no adapters "
                "and no gradient checkpointing; leave it None to use graphs where that holds"
            )
        if wanted:
            self.model.use_cuda_graphs()

    def trained(self) -> dict[str, Tensor]:
        """Return what the last update made of each sampled token, for a record of it."""
        return self.ppo.trained

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the present weights under the names that a serving engine knows."""
        return served_weights(self.lm)

    def _reference(self, config: ConfigStore) -> Reference | None:
        """Return what gives the log-probs that a KL penalty compares with, if there is one."""
        if not _has_reference(config):
            return None
        if self.reference is None:
            return functools.partial(_without_adapters, self.model)
        return self.reference

    def state(self) -> dict[str, Part]:
        """Return what decides the next update, besides the language model and the generators."""
        parts = {
            "critic": module_state(self.model, skip=("lm.",)),
            "optimizer": optimizer_state(self.ppo.optimizer, self.model),
            "stabilizers": Part(values=self.ppo.stabilizers.state()),
        }
        if self.reference is not None:
            parts["reference"] = module_state(self.reference)
        return parts

    def like(self, name: str) -> Tensor | None:
        """Return the tensor that one of a checkpoint's, by its full name, goes into."""
        part, _, key = name.partition("/")
        if part == "optimizer":
            return dict(self.model.named_parameters()).get(key.rpartition(".")[0])
        homes = {"critic": self.model, "adapters": plain_lm(self.lm), "reference": self.reference}
        home = homes.get(part)
        return None if home is None else home.state_dict().get(key)

    def check_state(self, parts: Mapping[str, Part]) -> None:
        """Refuse a state that this learner could not go on from, before anything is changed."""
        if self.reference is not None and "reference" not in parts:
            raise CheckpointError(
                "a KL to the reference needs a checkpoint that has one, got one of a run without; "
                "training.kl must be as it was"
            )

    def load_state(self, parts: Mapping[str, Part]) -> None:
        """Go on from ``parts``. What the config says now wins over what it said."""
        self.check_state(parts)
        set_module_state(self.model, parts["critic"], skip=("lm.",))
        groups = self.ppo.optimizer.param_groups
        settings = [{name: group[name] for name in group if name != "params"} for group in groups]
        set_optimizer_state(self.ppo.optimizer, self.model, parts["optimizer"])
        for group, own in zip(groups, settings, strict=True):
            group.update(own)
        if self.reference is not None:
            set_module_state(self.reference, parts["reference"])
        self.ppo.stabilizers.load_state(parts["stabilizers"].values)


def max_episode_tokens(config: ConfigStore) -> float | None:
    """Return the most tokens that an episode may have, where the aggregation divides by that."""
    loss = algo.get_policy_loss(config.training.policy_loss)
    if (config.training.loss_agg or loss.aggregation) != "seq-mean-token-sum-norm":
        return None
    return float(config.inference.max_tokens * (config.inference.max_turns or 1))


def _has_reference(config: ConfigStore) -> bool:
    return config.training.kl != "none"


def _frozen_copy(config: ConfigStore, model: PolicyValueModel) -> PolicyValueModel | None:
    """Return the policy that training began with, if a KL penalty pulls towards it."""
    if not _has_reference(config) or config.model.lora_rank:
        return None
    frozen = copy.deepcopy(model.lm).requires_grad_(False)
    if model.device.type == "cuda":  # it computes in that type, and need not be kept in a wider one
        frozen.to(dtype=model.compute_dtype)  # type: ignore[call-arg]
    return PolicyValueModel(
        frozen,
        critic="none",
        temperature=model.temperature,
        compute_dtype=model.compute_dtype,
        kernel=model.kernel,
    ).eval()


def _without_adapters(model: PolicyValueModel, *packed: Tensor, entropy: Entropy) -> TokenScores:
    """Score as the base does: adapters off is where training began."""
    layers = adapted_layers(model.lm).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        scores: TokenScores = model(*packed, entropy=entropy)
        return scores
    finally:
        for layer in layers:
            layer.enable_adapters(True)

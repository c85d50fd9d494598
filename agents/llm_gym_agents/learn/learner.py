"""``Learner``: model, optimizer and PPO of a run.

``ppo.update(data)`` trains on a batch and returns metrics; ``state()`` returns what a checkpoint
stores in addition to the language model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from llm_gym_agents import algo
from llm_gym_agents.config import InferenceConfig, ModelConfig, TrainingConfig
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.learn.scoring import Reference
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.model.cuda_graphs import can_capture, is_launch_bound
from llm_gym_agents.model.head import Entropy
from llm_gym_agents.model.policy_value import PolicyValueModel, TokenScores
from llm_gym_agents.model.self_check import check_packed_reading
from llm_gym_agents.model.weights import (
    adapted_layers,
    compute_dtype,
    keep_trained_in_float32,
    plain_lm,
    without_dropout,
)
from llm_gym_agents.run.state import (
    CheckpointError,
    Part,
    module_state,
    optimizer_state,
    set_module_state,
    set_optimizer_state,
)


class Learner:
    """Trains the language model ``lm`` in place on batches of episodes.

    Of the processes ``ranks`` each has its own learner of the same model, and all learners get the
    same calls.
    """

    def __init__(
        self,
        lm: PreTrainedModel,
        training: TrainingConfig,
        model: ModelConfig | None = None,
        inference: InferenceConfig | None = None,
        ranks: SingleProcess = SINGLE_PROCESS,
    ) -> None:
        self.lm, self.ranks = lm, ranks
        model, inference = model or ModelConfig(), inference or InferenceConfig()
        has_critic = algo.get_advantage(training.adv_estimator).needs_critic
        keep_trained_in_float32(lm)
        if lm.device.type == "cuda":  # TF32 for products in float32
            torch.set_float32_matmul_precision("high")
        self.model = PolicyValueModel(
            lm,
            critic=model.critic if has_critic else "none",
            temperature=inference.temperature,
            compute_dtype=compute_dtype(model.dtype, lm.device),
        )
        without_dropout(self.model)
        check_packed_reading(lm, self.model.compute_dtype)
        has_reference = training.kl != "none"
        self.reference: PolicyValueModel | None = None
        """A frozen copy of the first policy; None with LoRA, which needs only its adapters."""
        self.reference_adapters: dict[str, Tensor] = {}
        """The first policy's adapters with LoRA; none while they change nothing."""
        if has_reference and not model.lora_rank:
            self.reference = _frozen_copy(self.model)
        for each in (self.model, self.reference):
            if each is not None:
                ranks.shard(each, self.model.compute_dtype)
        reference: Reference | None = self.reference
        if has_reference and reference is None:
            reference = self._score_reference
        longest = most_tokens(training, inference)
        self.ppo = PPO(self.model, training, reference, norm_length=longest, ranks=ranks)

    def use_cuda_graphs(self, *, engine_sleeps: bool = False) -> None:
        """Use CUDA graphs if they save time and fit next to the engine in memory."""
        can = can_capture(self.model, self.model.compute_dtype)
        if can and is_launch_bound(self.lm) and not engine_sleeps:
            self.model.use_cuda_graphs()

    @torch.no_grad()
    def start_from_here(self) -> None:
        """Make the current policy the initial policy of RL; called after imitation."""
        self.ranks.equalize(self.model)
        if self.model.critic_lm is not None:
            self.model.critic_lm.load_state_dict(self.lm.base_model.state_dict())
        if self.reference is not None:
            self.reference.lm.load_state_dict(self.lm.state_dict())
        elif self.ppo.reference is not None:
            self.reference_adapters = {name: each.clone() for name, each in self._adapters()}

    def _adapters(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, p.detach()) for name, p in self.lm.named_parameters() if p.requires_grad)

    def _score_reference(self, *packed: Tensor, entropy: Entropy) -> TokenScores:
        """Score with the initial policy: its adapters, or none if it had none."""
        layers = adapted_layers(self.lm).values()
        kept = {name: each.clone() for name, each in self._adapters()}
        self._set_adapters(self.reference_adapters)
        for layer in layers:
            layer.enable_adapters(bool(self.reference_adapters))
        try:
            scores: TokenScores = self.model(*packed, entropy=entropy)
            return scores
        finally:
            self._set_adapters(kept)
            for layer in layers:
                layer.enable_adapters(True)

    @torch.no_grad()
    def _set_adapters(self, wanted: Mapping[str, Tensor]) -> None:
        for name, each in self._adapters():
            each.copy_(wanted.get(name, each))

    def state(self) -> dict[str, Part]:
        """Return the state for a checkpoint, without language model and RNGs."""
        parts = {
            "critic": module_state(self.model, skip=("lm.",)),
            "optimizer": optimizer_state(self.ppo.optimizer, self.model),
            "stabilizers": Part(values=self.ppo.stabilizers.state()),
        }
        if self.reference is not None:
            parts["reference"] = module_state(self.reference)
        elif self.reference_adapters:
            parts["reference"] = Part(tensors=self.reference_adapters)
        return parts

    def like(self, name: str) -> Tensor | None:
        """Return the tensor into which a checkpoint's tensor of this name is loaded."""
        part, _, key = name.partition("/")
        if part == "optimizer":
            return dict(self.model.named_parameters()).get(key.rpartition(".")[0])
        homes = {"critic": self.model, "adapters": plain_lm(self.lm), "reference": self.reference}
        home = homes.get(part) or (self.lm if part == "reference" else None)
        return None if home is None else home.state_dict().get(key)

    def check_state(self, parts: Mapping[str, Part]) -> None:
        """Raise if this learner cannot resume from ``parts``, before anything is changed."""
        if self.reference is not None and "reference" not in parts:
            raise CheckpointError(
                "a KL to the reference needs a checkpoint that has one, got one of a run without; "
                "training.kl must be as it was"
            )

    def load_state(self, parts: Mapping[str, Part]) -> None:
        """Resume from ``parts``. Optimizer settings come from the current config."""
        self.check_state(parts)
        set_module_state(self.model, parts["critic"], skip=("lm.",))
        groups = self.ppo.optimizer.param_groups
        settings = [{name: group[name] for name in group if name != "params"} for group in groups]
        set_optimizer_state(self.ppo.optimizer, self.model, parts["optimizer"])
        for group, own in zip(groups, settings, strict=True):
            group.update(own)
        if self.reference is not None:
            set_module_state(self.reference, parts["reference"])
        elif self.ppo.reference is not None:
            # A state from before an imitation has none: the reference is the base again.
            given = parts["reference"].tensors if "reference" in parts else {}
            near = {name: each.device for name, each in self._adapters() if name in given}
            self.reference_adapters = {name: given[name].to(near[name]) for name in near}
        self.ppo.stabilizers.load_state(parts["stabilizers"].values)


def most_tokens(training: TrainingConfig, inference: InferenceConfig) -> float | None:
    """Return the maximum tokens of an episode, if the aggregation divides by it."""
    loss = algo.get_policy_loss(training.policy_loss)
    if (training.loss_agg or loss.aggregation) != "seq-mean-token-sum-norm":
        return None
    return float(inference.max_tokens * (inference.max_turns or 1))


def _frozen_copy(model: PolicyValueModel) -> PolicyValueModel:
    """Return a frozen copy of the policy; on a GPU it is kept in the compute dtype."""
    frozen = copy.deepcopy(model.lm).requires_grad_(False)
    if model.device.type == "cuda":
        frozen.to(dtype=model.compute_dtype)
    return PolicyValueModel(
        frozen,
        critic="none",
        temperature=model.temperature,
        compute_dtype=model.compute_dtype,
    ).eval()

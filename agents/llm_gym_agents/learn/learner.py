"""``Learner``: model, optimizer and PPO behind one call.

``update(data)`` trains on a batch and returns metrics; ``weights()`` is what an engine is to be
given after it; ``state()`` is what a checkpoint keeps beside the language model. Arguments and
results are plain data, and nothing here knows a trainer: a learner may as well live in another
process.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

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
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.learn.ppo import PPO, Metrics
from llm_gym_agents.lm.served_weights import served_weights


class Learner:
    """Trains a language model on batches of episodes.

    Args:
        config: Every setting of the run.
        lm: Trained in place.
    """

    def __init__(self, config: ConfigStore, lm: PreTrainedModel) -> None:
        self.lm = lm
        self.estimator = algo.get_advantage(config.training.adv_estimator)
        critic = config.model.critic if self.estimator.needs_critic else "none"
        temperature = config.inference.temperature
        self.model = PolicyValueModel(lm, critic=critic, temperature=temperature)
        self.ppo = PPO(
            self.model, config.training, _reference(config, lm), norm_length=most_tokens(config)
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
    ) -> Metrics:
        """Train on ``data`` and return metrics; see ``PPO.update``."""
        return self.ppo.update(
            data, rate=rate, critic_only=critic_only, greedy_scores_E=greedy_scores_E
        )

    def trained(self) -> dict[str, Tensor]:
        """Return what the last update made of each sampled token, for a record of it."""
        return self.ppo.trained

    def weights(self) -> list[tuple[str, Tensor]]:
        """Return the present weights under the names that a serving engine knows."""
        return served_weights(self.lm)

    def state(self) -> dict[str, Part]:
        """Return what decides the next update, besides the language model and the generators."""
        parts = {
            "critic": module_state(self.model, skip=("lm.",)),
            "optimizer": optimizer_state(self.ppo.optimizer, self.model),
            "kl": Part(values=dict(self.ppo.kl_control.state_dict())),
        }
        if self.ppo.reference is not None:
            parts["reference"] = module_state(self.ppo.reference)
        return parts

    def check_state(self, parts: Mapping[str, Part]) -> None:
        """Refuse a state that this learner could not go on from, before anything is changed."""
        if self.ppo.reference is not None and "reference" not in parts:
            raise CheckpointError(
                "a KL to the reference needs a checkpoint that has one, got one of a run without; "
                "training.use_kl_in_reward or use_kl_in_loss must be as it was"
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
        if self.ppo.reference is not None:
            set_module_state(self.ppo.reference, parts["reference"])
        self.ppo.kl_control.load_state_dict(parts["kl"].values)


def most_tokens(config: ConfigStore) -> float | None:
    """Return the most tokens that an episode may have, where the aggregation divides by that."""
    loss = algo.get_policy_loss(config.training.policy_loss)
    if (config.training.loss_agg or loss.aggregation) != "seq-mean-token-sum-norm":
        return None
    turns = config.inference.max_turns if config.inference.multi_turn else 1
    return float(config.inference.max_tokens * (turns or 1))


def _reference(config: ConfigStore, lm: PreTrainedModel) -> PolicyValueModel | None:
    """Return the policy that training began with, if a KL penalty pulls towards it."""
    if not (config.training.use_kl_in_reward or config.training.use_kl_in_loss):
        return None
    frozen = copy.deepcopy(lm).requires_grad_(False).eval()
    return PolicyValueModel(frozen, critic="none", temperature=config.inference.temperature)

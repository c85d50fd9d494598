"""``Guards``: what keeps a long run from going wrong, as far as an update has a part in it.

Entropy that is held at a target, a critic in units of the returns, episodes that are left out. All
of them are off unless the config turns them on, and then change no number.

Shapes: T sampled tokens, E episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from llm_gym_agents import algo
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.learn.left_out import kept_episodes
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.learn.scores import Scores
from llm_gym_agents.learn.value_scale import ValueScale


class Guards:
    """The guards of an update, and what of them a checkpoint keeps.

    Args:
        config: Says which are on.
        model: Whose value head they scale.
    """

    def __init__(self, config: TrainingConfig, model: PolicyValueModel) -> None:
        self.config = config
        self.entropy = algo.EntropyController(config.entropy_coef, config.entropy_target)
        self.scale: ValueScale | None = None
        if config.normalise_values and model.value_head is not None:
            self.scale = ValueScale(model.value_head)
        self.kept_E: Tensor | None = None
        """Which episodes of the batch are learned from; None for all."""

    def true_values(self, scores: Scores) -> Scores:
        """Return ``scores`` with values of true returns, as advantages need them."""
        return scores if self.scale is None else self.scale.true(scores)

    def look(self, data: RolloutData, scores: Scores, advantages: algo.Advantages) -> None:
        """Take in a batch before it is learned from."""
        if self.scale is not None:
            self.scale.learn(advantages.returns_T)
        self.kept_E = kept_episodes(self.config, data, scores.log_prob_T)

    def scaled(self, value_T: Tensor) -> Tensor:
        """Return true values in the units that the critic learns in."""
        return value_T if self.scale is None else self.scale.scaled(value_T)

    def end(self, entropy: float) -> dict[str, float]:
        """Take in how an update went; return what the guards did in it."""
        found = {} if self.scale is None else self.scale.metrics
        if self.config.entropy_target is not None:
            found["policy/entropy_coef"] = self.entropy.entropy_coef
            self.entropy.update(entropy)
        if self.config.mask_truncated_replies or self.config.max_sampler_kl is not None:
            kept_E = self.kept_E
            found["train/left_out"] = 0.0 if kept_E is None else 1.0 - float(kept_E.float().mean())
        return found

    def state(self) -> dict[str, Any]:
        """Return what the next update depends on."""
        scale = None if self.scale is None else dict(self.scale.state_dict())
        return {"entropy": dict(self.entropy.state_dict()), "value_scale": scale}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``; a guard that was off then begins anew."""
        self.entropy.load_state_dict(state["entropy"])
        if self.scale is not None and state["value_scale"] is not None:
            self.scale.load_state_dict(state["value_scale"])

"""The model as TensorDict modules, for the objective: log-probs, entropies and values out."""

from __future__ import annotations

from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.lm.head import Entropy


def trunk(model: nn.Module, entropy: Entropy, *, has_critic: bool) -> TensorDictModule:
    """Return the model as the objective reads it: one call, whose value is there for the critic."""

    def read(*inputs: Tensor) -> tuple[Tensor, ...]:
        scores = model(*inputs, entropy=entropy)
        found = (scores.log_prob_T, scores.entropy_T)
        return found if scores.value_T is None else (*found, scores.value_T.unsqueeze(-1))

    written = ["token_log_prob", "token_entropy"]
    return TensorDictModule(
        read,
        in_keys=["ids", "sequence_lengths", "position", "token"],
        out_keys=[*written, "token_value"] if has_critic else written,
    )


def critic(model: PolicyValueModel) -> TensorDictModule | None:
    """Return the critic as the objective reads it: what ``trunk`` has written, if anything."""
    if model.value_head is None:
        return None
    return TensorDictModule(nn.Identity(), in_keys=["token_value"], out_keys=["value"])

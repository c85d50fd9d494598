"""``PolicyValueModel``: a causal language model with a value head, read once for everything.

One pass over packed sequences gives the log-prob and entropy of every sampled token and the
value at every position asked for. The head works in chunks that are computed again on the way
back, so no tensor of tokens times vocabulary ever exists.

Shapes: S ids of all sequences, Q sequences, T positions asked for, C hidden channels,
V vocabulary.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.transformers.causal import logit_scaling
from llm_gym_agents.lm.packed_attention import Packing, packed

CriticKind = Literal["shared", "separate", "none"]
CHUNK_ELEMENTS = 2**22
"""Logits held at a time, in numbers: 16 MiB in float32."""


class TokenScores(NamedTuple):
    """What the policy says of sampled tokens."""

    log_prob_T: Tensor
    entropy_T: Tensor
    hidden_TC: Tensor
    """The trunk's last hidden state at the positions, for a critic that shares it."""


class PolicyValueModel(nn.Module):
    """A Hugging Face causal language model and its critic.

    Args:
        lm: The policy. It is trained in place: an engine that holds it samples with new weights
            as soon as the optimizer has stepped.
        critic: ``shared`` puts a value head on the policy's own trunk, ``separate`` gives the
            critic a copy of it, ``none`` builds no critic.
        temperature: That of the sampler; log-probs are those of ``softmax(logits / temperature)``.
    """

    def __init__(
        self, lm: PreTrainedModel, *, critic: CriticKind = "shared", temperature: float = 1.0
    ) -> None:
        super().__init__()
        if critic not in ("shared", "separate", "none"):
            raise ConfigError(f"critic must be shared, separate or none, got {critic!r}")
        if temperature <= 0:
            raise ConfigError(
                f"temperature must be above 0 to train, got {temperature}; greedy play has no "
                "log-probs to learn from"
            )
        self.lm, self.critic_kind, self.temperature = lm, critic, temperature
        self.critic_lm = copy.deepcopy(lm.base_model) if critic == "separate" else None
        self.value_head: nn.Linear | None = None
        if critic != "none":
            weight = lm.get_output_embeddings().weight
            # Zeros: before its first step the critic adds no noise to the advantages.
            self.value_head = nn.Linear(weight.shape[1], 1, device=weight.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def device(self) -> torch.device:
        """Where the policy's weights are."""
        found: torch.device = self.lm.device
        return found

    def forward(
        self, ids_S: Tensor, sequence_lengths_Q: Tensor, position_T: Tensor, action_T: Tensor
    ) -> TokenScores:
        """Score the tokens ``action_T`` that are predicted at ``position_T`` of the packed ids."""
        hidden_TC = self.read(ids_S, sequence_lengths_Q)[position_T]
        log_prob_T, entropy_T = self.head(hidden_TC, action_T)
        return TokenScores(log_prob_T, entropy_T, hidden_TC)

    def read(self, ids_S: Tensor, sequence_lengths_Q: Tensor) -> Tensor:
        """Return the policy trunk's last hidden state at every id."""
        return _read(self.lm.base_model, ids_S, sequence_lengths_Q)

    def read_critic(self, ids_S: Tensor, sequence_lengths_Q: Tensor) -> Tensor:
        """Return the hidden states that the critic reads, from its own trunk if it has one."""
        trunk = self.lm.base_model if self.critic_lm is None else self.critic_lm
        return _read(trunk, ids_S, sequence_lengths_Q)

    def value(self, hidden_TC: Tensor) -> Tensor:
        """Return the values ``[T, 1]`` at hidden states of the trunk that the critic reads."""
        assert self.value_head is not None, "this model was built without a critic"
        values_T1: Tensor = self.value_head(hidden_TC.float())
        return values_T1

    def head(self, hidden_TC: Tensor, action_T: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-prob and entropy of ``action_T`` at hidden states of the policy's trunk."""
        head = self.lm.get_output_embeddings()
        rows = max(1, CHUNK_ELEMENTS // head.weight.shape[0])
        arguments = (head.weight, getattr(head, "bias", None), *logit_scaling(self.lm.config))
        if len(action_T) <= rows:
            return _score(hidden_TC, action_T, self.temperature, *arguments)
        parts = []
        for hidden, action in zip(hidden_TC.split(rows), action_T.split(rows), strict=True):
            given = (hidden, action, self.temperature, *arguments)
            again = torch.is_grad_enabled()
            parts.append(
                checkpoint(_score, *given, use_reentrant=False) if again else _score(*given)
            )
        log_probs, entropies = zip(*parts, strict=True)
        return torch.cat(log_probs), torch.cat(entropies)


def _read(trunk: Any, ids_S: Tensor, sequence_lengths_Q: Tensor) -> Tensor:
    packing = Packing.of(sequence_lengths_Q)
    with packed(trunk, packing):
        out = trunk(
            input_ids=ids_S.unsqueeze(0),
            position_ids=packing.position_S.unsqueeze(0),
            use_cache=False,
        )
    hidden_SC: Tensor = out.last_hidden_state.squeeze(0)
    return hidden_SC


def _score(
    hidden_TC: Tensor,
    action_T: Tensor,
    temperature: float,
    weight: Tensor,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
) -> tuple[Tensor, Tensor]:
    logits_TV = F.linear(hidden_TC.to(weight.dtype), weight, bias).float() * scale
    if softcap is not None:
        logits_TV = torch.tanh(logits_TV / softcap) * softcap
    log_probs_TV = (logits_TV / temperature).log_softmax(-1)
    entropy_T = -(log_probs_TV.exp() * log_probs_TV).sum(-1)
    return log_probs_TV.gather(-1, action_T.unsqueeze(-1)).squeeze(-1), entropy_T

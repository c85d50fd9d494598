"""``PolicyValueModel``: a causal language model with a value head, read once for everything.

One pass over packed sequences gives the log-prob and entropy of every sampled token and the value
at every position asked for. ``forward`` is the only entry, so hooks on a module's call (FSDP,
autocast) see every pass.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, B bootstrap positions, P = T + B, C
hidden channels.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from llm_gym.core.errors import ConfigError
from llm_gym_agents.model.cuda_graphs import GraphCache
from llm_gym_agents.model.head import Entropy, Head, token_log_probs
from llm_gym_agents.model.last_layer import is_worth_it, last_layer_at
from llm_gym_agents.model.lean_layers import lean_layers
from llm_gym_agents.model.packed_attention import Packing, packed
from llm_gym_agents.model.shared_prefix import share_prefixes
from llm_gym_agents.model.weights import computing_in, narrow_stream, without_dropout

CriticKind = Literal["shared", "detached", "separate", "none"]


class TokenScores(NamedTuple):
    """Scores of sampled tokens."""

    log_prob_T: Tensor
    entropy_T: Tensor | None
    """None unless asked for."""
    value_T: Tensor | None
    """At the position that predicts each token; None without a critic."""
    bootstrap_B: Tensor | None
    """At the bootstrap positions; None without a critic."""


class PolicyValueModel(nn.Module):
    """A Hugging Face causal language model and its critic.

    Args:
        lm: The policy, trained in place: an engine that holds it samples with the new weights after
            each optimizer step.
        critic: ``shared`` puts a value head on the policy's trunk, ``detached`` does so without a
            gradient into the trunk, ``separate`` gives the critic its own trunk, ``none`` builds no
            critic.
        temperature: That of the sampler; log-probs are those of ``softmax(logits / temperature)``.
        compute_dtype: What to compute in, whatever the dtype of the weights.
    """

    def __init__(
        self,
        lm: PreTrainedModel,
        *,
        critic: CriticKind = "shared",
        temperature: float = 1.0,
        compute_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if critic not in get_args(CriticKind):
            raise ConfigError(f"critic must be one of {get_args(CriticKind)}, got {critic!r}")
        if temperature <= 0:
            raise ConfigError(
                f"temperature must be above 0 to train, got {temperature}; greedy play has no "
                "log-probs to learn from"
            )
        self.lm, self.temperature = lm, temperature
        self.compute_dtype, self.critic = compute_dtype, critic
        self.critic_lm = copy.deepcopy(lm.base_model) if critic == "separate" else None
        self.critic_gradient = 0.0 if critic == "detached" else 1.0
        """Factor on the critic's gradient into the policy's trunk."""
        self.graph_caches: dict[str, GraphCache] = {}
        """CUDA graphs of policy and critic, if used."""
        self.value_head: nn.Linear | None = None
        if critic != "none":
            weight = lm.get_output_embeddings().weight
            # Zeros: an untrained critic adds no noise to the advantages.
            self.value_head = nn.Linear(weight.shape[1], 1, device=weight.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def device(self) -> torch.device:
        found: torch.device = self.lm.device
        return found

    def use_cuda_graphs(self) -> None:
        """Run passes as CUDA graphs from now on; see ``model.cuda_graphs``."""
        trunks = {"policy": self.lm.base_model, "critic": self.critic_lm}
        self.graph_caches = {
            name: GraphCache(trunk, functools.partial(hidden_states, trunk))
            for name, trunk in trunks.items()
            if trunk is not None
        }

    def forward(
        self,
        ids_S: Tensor,
        sequence_lengths_Q: Tensor,
        position_T: Tensor,
        token_T: Tensor,
        bootstrap_B: Tensor | None = None,
        *,
        entropy: Entropy = "gradient",
    ) -> TokenScores:
        """Score sampled tokens.

        Args:
            ids_S: All sequences, one after another; best on the CPU, where prefixes are compared.
            sequence_lengths_Q: Ids of each sequence.
            position_T: Index into ``ids_S`` of the position that predicts each token.
            token_T: The tokens.
            bootstrap_B: Further indices into ``ids_S`` where the value is asked for.
            entropy: How to compute the policy's entropy.
        """
        if self.lm.training:  # after ``train()``, or a new model
            without_dropout(self)
        with computing_in(self.compute_dtype, self.device):
            asked_P = position_T if bootstrap_B is None else torch.cat([position_T, bootstrap_B])
            read = self._reader(ids_S, sequence_lengths_Q, asked_P)
            hidden_PC = read(self.lm.base_model, "policy")
            log_prob_T, entropy_T = token_log_probs(
                Head.of(self.lm),
                hidden_PC[: len(token_T)],
                token_T,
                temperature=self.temperature,
                entropy=entropy,
            )
            if self.critic_lm is not None:
                hidden_PC = read(self.critic_lm, "critic")
        if self.value_head is None:
            return TokenScores(log_prob_T, entropy_T, None, None)
        if self.critic_lm is None and self.critic_gradient < 1.0:
            own_PC, hidden_PC = hidden_PC, hidden_PC.detach()
            if self.critic_gradient:
                hidden_PC = hidden_PC + self.critic_gradient * (own_PC - hidden_PC)
        values = self.value_head(hidden_PC.float()).squeeze(-1)
        tokens = len(token_T)
        return TokenScores(log_prob_T, entropy_T, values[:tokens], values[tokens:])

    def _reader(
        self, ids_S: Tensor, sequence_lengths_Q: Tensor, asked_P: Tensor
    ) -> Callable[[Any, str], Tensor]:
        """Return what gives the last hidden state of a trunk at ``asked_P``."""
        shared = share_prefixes(ids_S, sequence_lengths_Q, pads=self.device.type == "cpu")
        packing = Packing.of(sequence_lengths_Q.cpu())
        if shared is not None:
            ids_S, packing = shared.ids_U, shared.packing
            asked_P = shared.place_S.to(self.device, non_blocking=True)[asked_P]
        ids_S = ids_S.to(self.device, non_blocking=True)

        def read(trunk: Any, name: str) -> Tensor:
            if name in self.graph_caches:
                hidden_SC = self.graph_caches[name].hidden(ids_S, packing)
                if hidden_SC is not None:
                    return hidden_SC[asked_P]
            there = packing.to(self.device)
            if not is_worth_it(trunk, len(ids_S), len(asked_P)):
                return hidden_states(trunk, ids_S, there)[asked_P]
            with last_layer_at(trunk, asked_P, there):
                return hidden_states(trunk, ids_S, there)

        return read


def hidden_states(trunk: Any, ids_S: Tensor, packing: Packing) -> Tensor:
    """Return the trunk's last hidden state at every id."""
    lean = lean_layers(trunk)
    with packed(trunk.config, packing), narrow_stream(trunk), lean:
        out = trunk(
            input_ids=ids_S.unsqueeze(0),
            position_ids=packing.position_S.unsqueeze(0),
            use_cache=False,
        )
    hidden_SC: Tensor = out.last_hidden_state.squeeze(0)
    return hidden_SC

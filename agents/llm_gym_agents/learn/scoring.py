"""Score a batch with the current weights, in packs that fit into memory.

With several processes, each process scores its own packs, and all score equally many.

Shapes: T sampled tokens of all episodes, E episodes, M episodes of a pack, B truncated ones of M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from llm_gym_agents import algo
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.model.policy_value import PolicyValueModel, TokenScores
from llm_gym_agents.rollouts.pack import Pack, Packer
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData

Reference = Callable[..., TokenScores]
"""Scores a packed batch as the reference policy of a KL penalty does."""


class Scores(NamedTuple):
    """Log-probs, entropies and values of a batch by the weights before the update."""

    log_prob_T: Tensor | None
    """None if the single pass of the update computes them."""
    value_T: Tensor | None
    bootstrap_E: Tensor | None
    ref_log_prob_T: Tensor | None
    entropy_T: Tensor | None = None

    def at(self, index_T: Tensor) -> Scores:
        found = {name: each for name, each in self._asdict().items() if name.endswith("_T")}
        some = {name: each[index_T] for name, each in found.items() if each is not None}
        return self._replace(**some)


class BatchScorer:
    """Scores the tokens of a batch of episodes."""

    def __init__(
        self,
        model: PolicyValueModel,
        budget: int,
        reference: Reference | None = None,
        *,
        ranks: SingleProcess = SINGLE_PROCESS,
        whole: bool = False,
    ) -> None:
        self.model, self.budget, self.reference = model, budget, reference
        self.ranks, self.whole = ranks, whole

    @torch.no_grad()
    def score(self, packer: Packer, *, policy: bool = True, entropy: bool = False) -> Scores:
        """Return the scores of the whole batch, on the CPU.

        Args:
            packer: Packs the batch.
            policy: False scores only with the reference.
            entropy: Whether to return the policy's entropy at each token.
        """
        lengths_E, device = packer.data.lengths_E, self.model.device
        found: dict[str, Tensor] = {}
        for pack, counts in self.packs(packer, range(len(lengths_E))):
            index_T = pack.index_T.to(device, non_blocking=True)
            cut_M = pack.bootstrap_M != NO_POSITION
            for name, values in self._read(pack, cut_M, policy=policy, entropy=entropy).items():
                of_episodes = name == "bootstrap_E"
                if name not in found:  # what other processes read stays 0 here
                    size = len(lengths_E) if of_episodes else packer.data.tokens
                    found[name] = torch.zeros(size, device=device)
                if counts:
                    at = pack.episodes_M[cut_M].to(device) if of_episodes else index_T
                    found[name][at] = values
        totals = {
            name: self.ranks.all_sum(found[name]).cpu() for name in Scores._fields if name in found
        }
        return Scores(**{name: totals.get(name) for name in Scores._fields})

    def _read(self, pack: Pack, cut_M: Tensor, *, policy: bool, entropy: bool) -> dict[str, Tensor]:
        """Return the scores of a pack by the names of ``Scores``."""
        read: dict[str, Tensor | None] = {}
        if policy:
            ends_B = pack.bootstrap_M[cut_M].to(pack.token_T.device, non_blocking=True)
            own = self.model(*pack[:4], ends_B, entropy="each" if entropy else "none")
            read = {
                "log_prob_T": own.log_prob_T,
                "value_T": own.value_T,
                "bootstrap_E": own.bootstrap_B,
                "entropy_T": own.entropy_T,
            }
        if self.reference is not None:
            read["ref_log_prob_T"] = self.reference(*pack[:4], entropy="none").log_prob_T
        return {name: values for name, values in read.items() if values is not None}

    def packs(self, packer: Packer, episodes: Sequence[int]) -> Iterator[tuple[Pack, bool]]:
        """Yield the packs that this process reads, and whether each counts.

        Every call of the model is a collective of all processes. A process with fewer packs than
        others reads the shortest episode again, without counting it.
        """
        costs = packer.ids_E[list(episodes)].tolist()
        own = [episodes[at] for at in self.ranks.assign(costs)]
        cut = partial(packer.within, budget=self.budget, whole=self.whole)
        packs = cut(own)
        # Asked before any pack is read: a process without packs would ask while others read.
        fillers = self.ranks.all_max(len(packs)) - len(packs)
        for pack in packs:
            yield pack.to(self.model.device), True
        for _ in range(fillers):
            shortest = episodes[costs.index(min(costs))]
            yield cut([shortest])[0].to(self.model.device), False


def trained_tokens(
    data: RolloutData, scores: Scores, advantages: algo.Advantages
) -> dict[str, Tensor]:
    """Return the numbers of each sampled token for a rollout record.

    The ratio is the trainer's probability before the update over the sampler's.
    """
    assert scores.log_prob_T is not None
    found = {
        "ratios": (scores.log_prob_T - data.sampler_log_prob_T).exp(),
        "advantages": advantages.advantages_T,
    }
    maybe = {"values": scores.value_T, "entropies": scores.entropy_T}
    return found | {name: each for name, each in maybe.items() if each is not None}


def critic_metrics(scores: Scores, advantages: algo.Advantages) -> dict[str, float]:
    """Return how well the critic predicted the returns; empty without a critic."""
    if scores.value_T is None:
        return {}
    target_T, error_T = advantages.returns_T, advantages.returns_T - scores.value_T
    variance = float(target_T.var()) if len(target_T) > 1 else 0.0
    explained = 1.0 - float(error_T.var()) / variance if variance > 0 else 0.0
    return {
        "value/explained_variance": explained,
        "value/mean": float(scores.value_T.mean()),
        "value/target_mean": float(target_T.mean()),
    }

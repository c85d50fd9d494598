"""``BatchScorer``: what the present weights say of a batch, read in packs that fit into memory.

Where several processes learn together each reads its own packs, and all of them equally many.

Shapes: T sampled tokens of all episodes, E episodes, M episodes of a pack, B of them cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from llm_gym_agents.batch.pack import Pack, Packer
from llm_gym_agents.batch.rollout_data import NO_POSITION
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.learn.alone import ALONE, Alone
from llm_gym_agents.learn.model import PolicyValueModel, TokenScores
from llm_gym_agents.learn.scores import Scores
from llm_gym_agents.lm.head import Entropy

Reference = Callable[..., TokenScores]
"""Scores a packed batch as the policy does that a KL penalty pulls towards: a model, or nearly."""


class BatchScorer:
    """Scores the tokens of a batch of episodes with a model.

    Args:
        model: Read with as it is.
        config: Says how many tokens are read at once.
        reference: Read with as well, where there is one.
        ranks: The processes that read together.
        whole: Whether an episode has to be in one pack.
    """

    def __init__(
        self,
        model: PolicyValueModel,
        config: TrainingConfig,
        reference: Reference | None = None,
        *,
        ranks: Alone = ALONE,
        whole: bool = False,
    ) -> None:
        self.model, self.config, self.reference = model, config, reference
        self.ranks, self.whole = ranks, whole

    @torch.no_grad()
    def score(self, packer: Packer, *, policy: bool = True, entropy: bool = False) -> Scores:
        """Read the whole batch once with the current weights; results are on the CPU.

        Args:
            packer: Of the batch.
            policy: False leaves the policy out, where only the reference has to be asked.
            entropy: Whether to ask for the policy's entropy at each token.
        """
        data, model = packer.data, self.model
        device = model.device
        log_prob_T = torch.zeros_like(data.reward_T, device=device)
        value_T, bootstrap_E, ref_T = None, None, None
        entropy_T = torch.zeros_like(log_prob_T) if entropy and policy else None
        if model.value_head is not None:
            value_T = torch.zeros_like(log_prob_T)
            bootstrap_E = value_T.new_zeros(data.lengths_E.shape)
        if self.reference is not None:
            ref_T = torch.zeros_like(log_prob_T)
        for pack, counts in self.packs(packer, range(len(data.lengths_E))):
            cut_M = pack.bootstrap_M != NO_POSITION
            further_B = pack.bootstrap_M[cut_M].to(device, non_blocking=True)
            asked: Entropy = "each" if entropy else "none"
            found = model(*pack[:4], further_B, entropy=asked) if policy else None
            ref = self.reference(*pack[:4], entropy="none") if self.reference else None
            if not counts:
                continue
            index_T = pack.index_T.to(device, non_blocking=True)
            if found is not None:
                log_prob_T[index_T] = found.log_prob_T
                if entropy_T is not None:
                    entropy_T[index_T] = found.entropy_T
                if value_T is not None and bootstrap_E is not None:
                    value_T[index_T] = found.value_T
                    bootstrap_E[pack.episodes_M[cut_M].to(device)] = found.bootstrap_B
            if ref is not None and ref_T is not None:
                ref_T[index_T] = ref.log_prob_T
        read = (log_prob_T if policy else None, value_T, bootstrap_E, ref_T, entropy_T)
        # What others have read is 0 here.
        return Scores(*(None if each is None else self.ranks.total(each).cpu() for each in read))

    def packs(self, packer: Packer, episodes: Sequence[int]) -> Iterator[tuple[Pack, bool]]:
        """Yield what this process reads of ``episodes``, and whether it counts.

        All processes call the model equally often, because each call is one of all of them. Who
        has fewer packs than others reads the shortest episode again, for nothing.
        """
        budget, whole = self.config.micro_batch_tokens, self.whole
        costs = packer.ids_E[list(episodes)].tolist()
        own = [episodes[at] for at in self.ranks.own(costs)]
        packs = packer.within(own, budget, whole=whole)
        # Asked before any is read: who has none would ask while others wait for it to read.
        fillers = self.ranks.most(len(packs)) - len(packs)
        for pack in packs:
            yield pack.to(self.model.device), True
        for _ in range(fillers):
            shortest = episodes[costs.index(min(costs))]
            yield packer.within([shortest], budget, whole=whole)[0].to(self.model.device), False

"""Does the engine sample with the weights that are trained?

A push of weights can fail without a word: a backend that keeps a packed copy of a layer goes on
with the old one, and training goes on with samples of a model that is no more. So after a push a
few short prompts are continued by the engine and scored by the trainer's own model. If the two
disagree by more than their precision explains, that is an error, never stale training.

That the weights arrived is known exactly (``weight_check``); this is the second look, at what the
engine computes with them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from llm_gym_agents.engines.base import Engine, Request, Sampling, StaleWeightsError
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.scoring import score

PROMPTS, PROMPT_TOKENS, REPLY_TOKENS = 4, 8, 8
__all__ = ["COARSE", "FINE", "Allowance", "Probe", "StaleWeightsError"]
FACTOR = 5.0
"""Times the gap of the start that is still precision: sharper models have larger ones."""


class Allowance(NamedTuple):
    """Mean differences of a log-prob that precision may explain."""

    least: float
    """Always allowed, however well the two agreed at the start."""
    most: float
    """Never exceeded, however badly they did."""


FINE = Allowance(1e-3, 2e-2)
"""In float32: some 1e-6 on a CPU, 2e-3 on a GPU whose matrix products are TF32."""
COARSE = Allowance(5e-2, 2e-1)
"""In 16 bits, where a model and its engine differ by some 0.04."""


class Probe:
    """Compares an engine with the model that it should be sampling from."""

    def __init__(self, lm: nn.Module) -> None:
        self._lm = CausalModel(lm)
        self._at_start: float | None = None

    def check(self, engine: Engine) -> float:
        """Return the mean difference of log-probs; raise if it is more than precision.

        How much that is, is measured: at the first check, with weights that were just proven.
        """
        gap = self.gap(engine)
        types = {getattr(engine, "dtype", self._lm.dtype), self._lm.dtype}
        least, most = FINE if types <= {torch.float32, torch.float64} else COARSE
        start = self._at_start
        allowed = most if start is None else min(most, max(least, FACTOR * start))
        if not gap <= allowed:
            raise StaleWeightsError(
                f"the engine does not sample with the weights of version {engine.version}: its "
                f"log-probs differ from the model's by {gap:.2g} on average, where their precision "
                f"allows {allowed:g}; nothing was trained on them"
            )
        if start is None:
            self._at_start = gap
        return gap

    def gap(self, engine: Engine) -> float:
        """Return the mean difference of the log-probs of a few sampled tokens."""
        requests = [
            Request(
                [(17 * at + 5 * which + 1) % self._lm.vocabulary for at in range(PROMPT_TOKENS)],
                Sampling(max_tokens=REPLY_TOKENS),
                seed=which,
            )
            for which in range(PROMPTS)
        ]
        replies = engine.generate(requests)
        sequences = [
            [*asked.prompt, *said.ids] for asked, said in zip(requests, replies, strict=True)
        ]
        gaps = [
            abs(theirs - ours)
            for scored, said in zip(score(self._lm, sequences, 1.0), replies, strict=True)
            for theirs, ours in zip(said.log_probs, scored[PROMPT_TOKENS - 1 :], strict=True)
        ]
        return sum(gaps) / len(gaps)

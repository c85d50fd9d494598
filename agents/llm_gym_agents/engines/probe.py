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
ROUNDING = 3.0
"""Times the model's own rounding that is still precision, looked at before there is an alarm."""


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
HOPELESS = 0.5
"""What is sampled at such a gap is another model's, whatever the reason."""


class Probe:
    """Compares an engine with the model that it should be sampling from."""

    def __init__(self, lm: nn.Module) -> None:
        self._lm = CausalModel(lm)
        self._at_start: float | None = None

    def check(self, engine: Engine) -> float:
        """Return the mean difference of log-probs; raise if it is more than precision.

        How much that is, is measured: at the first check, with weights that were just proven, and
        again by the model's own rounding if that does not explain it. Training made it larger.
        """
        gap = self.gap(engine)
        types = {getattr(engine, "dtype", self._lm.dtype), self._lm.dtype}
        narrow = types - {torch.float32, torch.float64}
        least, most = COARSE if narrow else FINE
        start = self._at_start
        allowed = most if start is None else min(most, max(least, FACTOR * start))
        if not gap <= allowed and narrow:
            rounding = self.rounding(engine, narrow.pop())
            allowed = max(allowed, min(HOPELESS, ROUNDING * rounding))
        if not gap <= allowed:
            raise StaleWeightsError(
                f"the engine does not sample with the weights of version {engine.version}: its "
                f"log-probs differ from the model's by {gap:.2g} on average, where their precision "
                f"allows {allowed:.2g}; nothing was trained on them"
            )
        if start is None:
            self._at_start = gap
        return gap

    def gap(self, engine: Engine) -> float:
        """Return the mean difference of the log-probs of a few sampled tokens."""
        sequences, theirs = self._sampled(engine)
        return _apart(self._scores(sequences), theirs)

    def rounding(self, engine: Engine, dtype: torch.dtype) -> float:
        """Return the same of the model and itself, computing in ``dtype``."""
        sequences, _ = self._sampled(engine)
        # Weights that are cast are not kept: a second model may not fit.
        with torch.autocast(self._lm.device.type, dtype, cache_enabled=False):
            rounded = self._scores(sequences)
        return _apart(self._scores(sequences), rounded)

    def _scores(self, sequences: list[list[int]]) -> list[list[float]]:
        return [scored[PROMPT_TOKENS - 1 :] for scored in score(self._lm, sequences, 1.0)]

    def _sampled(self, engine: Engine) -> tuple[list[list[int]], list[list[float]]]:
        """Return a few prompts as the engine continues them, and its log-probs."""
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
        return sequences, [list(said.log_probs) for said in replies]


def _apart(ours: list[list[float]], theirs: list[list[float]]) -> float:
    gaps = [
        abs(one - two)
        for mine, other in zip(ours, theirs, strict=True)
        for one, two in zip(mine, other, strict=True)
    ]
    return sum(gaps) / len(gaps)

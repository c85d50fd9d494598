"""Does the engine sample with the weights that are trained?

A push of weights can fail without a word: a backend that keeps a packed copy of a layer goes on
with the old one, and training goes on with samples of a model that is no more. So after a push a
few short prompts are continued by the engine and scored by the trainer's own model. If the two
disagree by more than their precision explains, that is an error, never stale training.
"""

from __future__ import annotations

import torch
from torch import nn

from llm_gym_agents.engines.base import Engine, EngineError, Request, Sampling
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.scoring import score

PROMPTS, PROMPT_TOKENS, REPLY_TOKENS = 4, 8, 8
TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3}
"""Largest mean difference of a log-prob; float32 has some 1e-6 on a CPU."""
COARSE = 0.2
"""The same in 16 bits, where a bfloat16 model and its engine differ by some 0.04."""


class StaleWeightsError(EngineError):
    """The engine does not sample with the weights that it was given."""


class Probe:
    """Compares an engine with the model that it should be sampling from."""

    def __init__(self, lm: nn.Module) -> None:
        self._lm = CausalModel(lm)

    def check(self, engine: Engine) -> float:
        """Return the mean difference of log-probs; raise if it is more than precision."""
        gap = self.gap(engine)
        types = {getattr(engine, "dtype", self._lm.dtype), self._lm.dtype}
        allowed = max(TOLERANCE.get(dtype, COARSE) for dtype in types)
        if not gap <= allowed:
            raise StaleWeightsError(
                f"the engine does not sample with the weights of version {engine.version}: its "
                f"log-probs differ from the model's by {gap:.2g} on average, where their precision "
                f"allows {allowed:g}; nothing was trained on them"
            )
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

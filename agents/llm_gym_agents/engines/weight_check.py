"""Checks after a push that the engine samples with the trained weights.

``WeightCheck`` is exact: the trainer's weights, cast as the engine keeps them, are summed while
they are pushed; the engine's parameters are read back and summed where they are (``weight_sums``).
A weight that missed a push, at a learning rate however small, is an error that names it.

``Probe`` looks at what the engine computes: it continues a few short prompts, and the trainer's own
model scores them. A gap that precision does not explain is an error. Where sums cannot be read, as
from SGLang, it follows every push.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn

from llm_gym_agents.engines.base import Engine, Request, Sampling, StaleWeightsError
from llm_gym_agents.engines.transformers.causal import CausalModel, score
from llm_gym_agents.engines.weight_push import PendingSums, WeightSum

Sums = Mapping[str, WeightSum]


def cast_and_sum(
    named_tensors: Iterable[tuple[str, Tensor]],
    dtype_of: Callable[[str], torch.dtype | None],
    sums: PendingSums,
) -> Iterator[tuple[str, Tensor]]:
    """Yield weights cast to the engine's dtypes, and add each to ``sums``."""
    for name, tensor in named_tensors:
        cast = tensor.detach().to(dtype_of(name) or tensor.dtype)
        sums.add(name, cast)
        yield name, cast
    sums.flush()


class WeightCheck:
    """Compares the weights sent to an engine with those that it holds."""

    def __init__(self, packed_weights: Mapping[str, Sequence[str]]) -> None:
        self._packed_weights = packed_weights
        self._first = True
        self.proven = False
        """Whether the sum of every weight of the last push was compared."""
        self._reordered: set[str] = set()
        """Weights that the engine keeps in another order, such as transposed."""

    def push(
        self, engine: Engine, named_tensors: Iterable[tuple[str, Tensor]], version: int
    ) -> int:
        """Send weights to the engine and compare them; return how many were compared."""
        sums = PendingSums()
        watched = cast_and_sum(named_tensors, engine.weight_dtype, sums)
        engine.update_weights(watched, version)
        for _ in watched:  # weights that the engine did not even read count as missing
            pass
        return self.compare(sums.read(), engine.weight_sums(), version)

    def compare(self, ours: Sums, theirs: Sums | None, version: int) -> int:
        """Return how many weights were compared; raise ``StaleWeightsError`` if one differs.

        Args:
            ours: Checksums of the weights that were sent.
            theirs: Checksums of the engine's weights; None if it has none: then nothing is
                compared.
            version: Version of the weights, for the error.
        """
        if theirs is None:
            return 0
        left, unnamed = dict(ours), 0
        differs: list[str] = []
        for name, found in theirs.items():
            parts = self._parts(ours, name)
            if not parts:
                unnamed += found.content
                continue
            for part in parts:
                left.pop(part, None)
            if not self._agrees(name, [ours[part] for part in parts], found):
                differs.append(name)
        # Weights without a name in common are compared by their total.
        if left and unnamed:
            if (unnamed - sum(each.content for each in left.values())) % (1 << 64):
                differs.append(f"one of {', '.join(sorted(left)[:3])}")
            left.clear()
        if differs:
            raise StaleWeightsError(
                f"the engine does not hold the weights of version {version}: {differs[0]} "
                "differs from what was pushed; nothing was trained on them"
            )
        self._first, self.proven = False, not left
        return len(ours) - len(left)

    def _agrees(self, name: str, parts: list[WeightSum], found: WeightSum) -> bool:
        wanted = functools.reduce(WeightSum.followed_by, parts)
        if found.content != wanted.content:
            return False
        if found.order != wanted.order:
            # At the first push that is how the engine keeps it, and the probe checks that it
            # computes with it rightly. Later it means that two weights were swapped.
            if not self._first and name not in self._reordered:
                return False
            self._reordered.add(name)
        return True

    def _parts(self, ours: Sums, name: str) -> list[str]:
        """Return which pushed weights make up the weight ``name`` of the engine, in order."""
        if name in ours:
            return [name]
        path = name.split(".")
        module = path[-2] if len(path) > 1 else ""
        names = [
            ".".join([*path[:-2], part, path[-1]]) for part in self._packed_weights.get(module, ())
        ]
        return names if all(each in ours for each in names) else []


PROMPTS, PROMPT_TOKENS, REPLY_TOKENS = 4, 8, 8
FACTOR = 5.0
"""Allowed growth of the initial gap: sharper distributions have larger rounding gaps."""
ROUNDING = 3.0
"""Allowed multiple of the model's own rounding error, checked before an error is raised."""


class Allowance(NamedTuple):
    """Mean differences of a log-prob that precision may explain."""

    least: float
    """Always allowed, even if both agreed better at the start."""
    most: float
    """Never exceeded, even if both agreed worse at the start."""


FINE = Allowance(1e-3, 2e-2)
"""In float32: some 1e-6 on a CPU, 2e-3 on a GPU whose matrix products are TF32."""
COARSE = Allowance(5e-2, 2e-1)
"""In 16 bits, where a model and its engine differ by some 0.04."""
HOPELESS = 0.5
"""At such a gap the engine samples from a different model, whatever the reason."""


class Probe:
    """Compares an engine's log-probs with those of the trained model."""

    def __init__(self, lm: nn.Module) -> None:
        self._lm = CausalModel(lm)
        self._at_start: float | None = None

    def check(self, engine: Engine) -> float:
        """Return the mean difference of log-probs; raise if rounding cannot explain it.

        The allowed difference is measured at the first check, with verified weights. If it is
        exceeded, the model's own rounding error is measured again, because training can make it
        larger.
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
        """Return the mean difference between the model and itself computed in ``dtype``."""
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
            [*request.prompt, *reply.ids] for request, reply in zip(requests, replies, strict=True)
        ]
        return sequences, [list(reply.log_probs) for reply in replies]


def _apart(ours: list[list[float]], theirs: list[list[float]]) -> float:
    gaps = [abs(one - two) for one, two in zip(chain(*ours), chain(*theirs), strict=True)]
    return sum(gaps) / len(gaps)

"""Does the engine hold the weights that it was given? Exact, after every push.

The trainer's weights, cast as the engine keeps them, are summed while they are pushed; the engine's
own parameters are then read back and summed where they are (``weight_sums``). A weight that missed
its push, at a learning rate however small, is an error that names it, and nothing is sampled with
it. A server that hashes in its own way (SGLang) is held to less: each of its weights must have
another hash exactly where the trainer's changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from llm_gym_agents.engines.base import Engine, Request, Sampling, StaleWeightsError
from llm_gym_agents.engines.transformers.causal import CausalModel, score
from llm_gym_agents.engines.weight_sums import PendingSums, WeightSum

Sums = Mapping[str, WeightSum]


class WeightCheck:
    """Watches the pushes to one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._sums = PendingSums()
        self._first = True
        self.proven = False
        """Whether each weight of the last push was compared, by its bits."""
        self._turned: set[str] = set()
        """Weights that the engine keeps in another order, such as transposed."""
        self._before: tuple[Sums, Mapping[str, str]] | None = None
        self._seen: tuple[Sums, Mapping[str, str]] | None = None

    def push(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> int:
        """Give the engine weights and check that it has them; return how many were compared."""
        watched = self._watch(named_tensors)
        self.engine.update_weights(watched, version)
        for _ in watched:  # what the engine has not even asked for is to be missed as well
            pass
        return self.check()

    def _watch(self, named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights as the engine keeps them, and note what they are."""
        self._sums = PendingSums()
        for name, tensor in named_tensors:
            own = tensor.detach()
            cast = own.to(self.engine.weight_dtype(name) or tensor.dtype)
            self._sums.add(name, cast, stays=cast is not own)  # a copy is nobody else's
            yield name, cast

    def against(self, sums: PendingSums) -> int:
        """Check a push that somebody else made, whose sums are ``sums``."""
        self._sums = sums
        return self.check()

    def check(self) -> int:
        """Raise ``StaleWeightsError`` unless the engine holds what was pushed last."""
        ours = self._sums.read()
        if (theirs := self.engine.weight_sums()) is not None:
            compared = self._compare(ours, theirs)
            self._first, self.proven = False, compared == len(ours)
            return compared
        if (marks := self.engine.weight_marks()) is not None:
            self._seen = (ours, marks)
            return 0 if self._before is None else self._compare_changes(self._before, self._seen)
        return 0

    def confirm(self) -> None:
        """Note that the engine also computes with what was pushed last: changes count from it."""
        self._before = self._seen

    def _compare(self, ours: Sums, theirs: Sequence[Sums]) -> int:
        """Compare per weight of the engine; weights without a name in common, as one."""
        left, strange = dict(ours), 0
        for name in dict.fromkeys(itertools.chain.from_iterable(theirs)):
            shards = [shard[name] for shard in theirs if name in shard]
            parts = self._parts(ours, name)
            if not parts:
                strange += sum(shard.content for shard in shards)
                continue
            for part in parts:
                left.pop(part, None)
            self._compare_one(name, [ours[part] for part in parts], shards)
        compared = len(ours) - len(left)
        if not (left and strange and len(theirs) == 1):
            return compared
        if (strange - sum(each.content for each in left.values())) % (1 << 64):
            raise self._stale(f"one of {', '.join(sorted(left)[:3])}")
        return len(ours)

    def _compare_one(self, name: str, parts: list[WeightSum], shards: list[WeightSum]) -> None:
        if len(shards) > 1:
            if not _adds_up(parts, shards):
                raise self._stale(name)
            return
        [found], wanted = shards, _joined(parts)
        if found.content != wanted.content:
            raise self._stale(name)
        if found.order != wanted.order:
            # At the start that is how the engine keeps it (the probe then looks whether it
            # computes with it rightly); later, two things have changed places.
            if not self._first and name not in self._turned:
                raise self._stale(name)
            self._turned.add(name)

    def _compare_changes(
        self, before: tuple[Sums, Mapping[str, str]], after: tuple[Sums, Mapping[str, str]]
    ) -> int:
        compared = 0
        for name, mark in after[1].items():
            parts = self._parts(after[0], name)
            if not parts or name not in before[1]:
                continue
            compared += 1
            changed = any(before[0].get(part) != after[0][part] for part in parts)
            if changed != (before[1][name] != mark):
                raise self._stale(name)
        return compared

    def _parts(self, ours: Sums, name: str) -> list[str]:
        """Return which pushed weights make up the weight ``name`` of the engine, in order."""
        if name in ours:
            return [name]
        path = name.split(".")
        module = path[-2] if len(path) > 1 else ""
        names = [
            ".".join([*path[:-2], part, path[-1]])
            for part in self.engine.packed_weights.get(module, ())
        ]
        return names if all(each in ours for each in names) else []

    def _stale(self, name: str) -> StaleWeightsError:
        return StaleWeightsError(
            f"the engine does not hold the weights of version {self.engine.version}: {name} "
            "differs from what was pushed; nothing was trained on them"
        )


def _joined(parts: Sequence[WeightSum]) -> WeightSum:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.followed_by(part)
    return whole


def _adds_up(parts: Sequence[WeightSum], shards: Sequence[WeightSum]) -> bool:
    """Whether the shards of several workers are these parts.

    Each worker has its share of a part, or all of it, or shares it with some of the others.
    """
    workers = len(shards)
    times = [each for each in range(1, workers + 1) if workers % each == 0]
    total = sum(shard.content for shard in shards)
    return any(
        (total - sum(n * part.content for n, part in zip(some, parts, strict=True))) % (1 << 64)
        == 0
        for some in itertools.product(times, repeat=len(parts))
    )


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

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

from torch import Tensor

from llm_gym_agents.engines.base import Engine, StaleWeightsError
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

"""``Engine``: the interface between a policy and an inference engine.

Prompts and replies are token ids: nothing here knows about text, chat or games. ``submit`` accepts
requests at any time, and ``poll`` returns each reply when it is finished, so no request waits for
the slowest one; ``generate`` does both. Each request has its own seed, so its reply does not depend
on the rest of the batch.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.splits import stable_hash
from llm_gym_agents.engines.weight_push import Bucket, WeightSum, weights_in

MIN_TEMPERATURE = 1e-5
"""Lowest temperature above 0: below it logits overflow. 0 is greedy."""


class EngineError(LLMGymError, RuntimeError):
    """An engine cannot go on: its model or its process failed, or it was closed."""


class StaleWeightsError(EngineError):
    """The engine does not sample with the weights that it was given."""


class FinishReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"  # an end-of-text token, a stop id or a stop string
    LENGTH = "length"  # max_tokens were sampled
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample a reply.

    Log-probs are always those of ``softmax(logits / temperature)`` over the whole vocabulary, which
    a trainer can recompute; ``top_p`` does not renormalise them. At temperature 0 the most likely
    token is taken, with its log-prob at temperature 1.
    """

    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    stop_ids: tuple[int, ...] = ()
    """Added to the model's end-of-text ids. The stopping id is part of the reply."""
    stop_strings: tuple[str, ...] = ()
    """Needs an engine with a tokenizer. The reply keeps the tokens of the string."""
    pattern: str | None = None
    """A regex that the whole reply must match, if the engine supports constrained decoding.
    Log-probs are then relative to the allowed tokens."""

    def __post_init__(self) -> None:
        _need(self.max_tokens >= 1, f"max_tokens must be at least 1, got {self.max_tokens}")
        _need(
            self.temperature == 0 or MIN_TEMPERATURE <= self.temperature < float("inf"),
            f"temperature must be 0 (greedy) or at least {MIN_TEMPERATURE}, got {self.temperature}",
        )
        _need(0 < self.top_p <= 1, f"top_p must be in (0, 1], got {self.top_p}")
        _need(
            not isinstance(self.stop_strings, str) and "" not in self.stop_strings,
            f"stop_strings must be a tuple of strings, none empty, got {self.stop_strings!r}",
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One reply to be sampled."""

    prompt: Sequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    key: object = None
    """Copied to the ``Completion``."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled reply: as many log-probs as ids."""

    ids: list[int]
    log_probs: list[float]
    finish: FinishReason
    version: int
    """Version of the weights that sampled it."""
    key: object = None


def request_seed(run: int, episode: int, turn: int, sample: int = 0) -> int:
    """Return the 63-bit seed of one reply; it depends only on its position in the run.

    >>> request_seed(0, 1, 2) == request_seed(0, 1, 2) != request_seed(0, 2, 1)
    True
    """
    return stable_hash(f"{run}/{episode}/{turn}/{sample}")


class Engine(ABC):
    """A model that samples replies."""

    context_length: int
    """Maximum tokens of prompt and reply together."""
    end_ids: frozenset[int]
    """The ids that end a reply by themselves."""
    tokenizer: Any = None
    """For stop strings only."""
    version: int = 0
    """Version of the weights, set by ``update_weights``."""
    shares_model: bool = False
    """Whether the engine samples with the trained model itself, so that no weights are sent."""
    _closed = False
    _held: Sequence[tuple[str, Tensor]] = ()
    """Weights of the buckets so far."""

    def need_open(self) -> None:
        """Raise ``EngineError`` after ``close``."""
        if self._closed:
            raise EngineError("the engine is closed")

    @abstractmethod
    def submit(self, requests: Iterable[Request]) -> None:
        """Queue requests; others may be running. Refuses prompts that leave no room to reply."""

    @abstractmethod
    def poll(self, timeout: float | None = None) -> list[Completion]:
        """Return replies that have finished since the last call.

        Waits until there is at least one, or ``timeout`` seconds have passed, or nothing is
        running. An engine that computes in this thread works while it waits, and does at least
        one step of work whatever the timeout.
        """

    @property
    @abstractmethod
    def running(self) -> int:
        """How many requests have been submitted and not yet returned by ``poll``."""

    @abstractmethod
    def score(
        self, sequences: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        """Return the log-prob of every token but the first of each sequence, given its prefix."""

    @abstractmethod
    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Replace the weights. Nothing may be running."""

    def load_bucket(self, bucket: Bucket | bytes) -> None:
        """Receive some of the new weights; ``finish_loading`` ends the transfer.

        In between, nothing can be sampled. An engine that needs all weights at once must copy them,
        because the sender reuses the memory.
        """
        new = [(name, weight.clone()) for name, weight in weights_in(bucket)]
        self._held = [*self._held, *new]

    def finish_loading(self, version: int) -> None:
        """Use the weights of all buckets as ``version``; refuse if some are missing."""
        held, self._held = self._held, ()
        self.update_weights(held, version)

    def need_idle(self) -> None:
        """Raise ``EngineError`` if requests are running: new weights would change their replies."""
        if self.running:
            raise EngineError(
                f"weights cannot change while {self.running} replies are running; take them with "
                "poll, or drop them with cancel"
            )

    def forget(self) -> None:
        """Empty the prefix cache, if it could change the last bits of a reply."""
        return

    packed_weights: Mapping[str, Sequence[str]] = {
        "qkv_proj": ("q_proj", "k_proj", "v_proj"),
        "gate_up_proj": ("gate_proj", "up_proj"),
    }
    """Fused layers of a serving engine, and their parts in order."""

    def weight_dtype(self, name: str) -> torch.dtype | None:
        """Return the dtype of the weight ``name``; None if the engine takes any."""
        return getattr(self, "dtype", None)

    def weight_sums(self) -> Mapping[str, WeightSum] | None:
        """Return checksums of the weights in use; None if they cannot be read."""
        return None

    @abstractmethod
    def cancel(self) -> list[Completion]:
        """Cancel all running requests, and return the partial replies."""

    @abstractmethod
    def close(self) -> None:
        """Free processes and memory. Safe to call twice."""

    def sleep(self) -> None:
        """Free device memory until ``wake``, if the engine can."""
        return

    def wake(self) -> None:
        """Take the memory again."""
        return

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in their order. Nothing else may be running."""
        _need(self.running == 0, f"generate needs an idle engine, got {self.running} running")
        tagged = [replace(request, key=at) for at, request in enumerate(requests)]
        found: dict[object, Completion] = {}
        try:
            self.submit(tagged)
            while len(found) < len(tagged):
                found.update((done.key, done) for done in self.poll())
        except BaseException:  # also an interrupt must leave an engine that can be used again
            self.cancel()
            raise
        return [replace(found[at], key=request.key) for at, request in enumerate(requests)]


@contextmanager
def restored_environ() -> Iterator[None]:
    """Undo changes of the environment variables at the end of this block."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _need(held: bool, sentence: str) -> None:
    if not held:
        raise ConfigError(sentence)

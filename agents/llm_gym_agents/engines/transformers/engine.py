"""The transformers engine: it samples with the same model that is trained.

Replies run in one batch that others may join at any time (``decode``). Everything happens in the
calling thread, while ``poll`` waits.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym_agents.engines.base import Completion, Engine, EngineError, Request, Sampling
from llm_gym_agents.engines.replies import Row, check_ids, end_ids_of
from llm_gym_agents.engines.transformers.causal import CausalModel, score
from llm_gym_agents.engines.transformers.decode import Decoder
from llm_gym_agents.engines.weight_push import Bucket, WeightSum, weight_sums, weights_in
from llm_gym_agents.model.self_check import as_config_error, full_float32, unexplained_gap


class TransformersEngine(Engine):
    """Samples with a transformers causal language model, on the device that it is on.

    The model is shared, not copied: after a training step the engine samples with the new weights,
    and ``update_weights`` with the model's own tensors only sets the version. During generation the
    model is in eval mode without gradients; afterwards its mode is restored.

    A reply depends on prompt, settings and seed, up to rounding: another batch size may change the
    last bits of a log-prob, and about one token in a million.

    Args:
        model: Any transformers causal language model that takes positions and a cache. A model is
            refused if its decoding does not agree with its own forward pass.
        tokenizer: Needed only for stop strings.
        end_ids: Ids that end a reply; by default those of model and tokenizer.
        context_length: Maximum tokens of prompt and reply; by default the model's context.
        max_rows: Maximum replies that run at once; others wait. Limits the memory of the cache.
        prefix_cache: Keep keys and values, so that a common prefix of prompts is computed once.
            ``update_weights`` and training steps empty the cache.
    """

    shares_model = True

    def __init__(
        self,
        model: nn.Module,
        *,
        tokenizer: Any = None,
        end_ids: Iterable[int] | None = None,
        context_length: int | None = None,
        max_rows: int = 256,
        prefix_cache: bool = True,
    ) -> None:
        check_range("max_rows", max_rows, 1)
        self.model, self.tokenizer = model, tokenizer
        self._causal = CausalModel(model, context_length)
        self.context_length = self._causal.context_length
        self._waiting: deque[Row] = deque()
        self._reached: set[int] = set()
        self._decoder = Decoder(self._causal, max_rows, prefix_cache)
        self._weights = fingerprint(model)
        self.end_ids = frozenset()
        self._check_decoding()
        owners = (self._causal.config, getattr(model, "generation_config", None), tokenizer)
        self.end_ids = frozenset(end_ids_of(*owners) if end_ids is None else end_ids)

    def _check_decoding(self) -> None:
        """Raise ``ConfigError`` if two short prompts are not continued as the model reads them."""
        model, name = self._causal, type(self.model).__name__
        lengths = [max(1, min(length, model.context_length - 2)) for length in (7, 4)]
        requests = [
            Request(
                [(7 * at + 3 * row + 1) % model.vocabulary for at in range(length)],
                Sampling(max_tokens=2),
                seed=row,
            )
            for row, length in enumerate(lengths)
        ]
        gaps: list[float | None] = []
        with full_float32(), as_config_error(f"{name} cannot be decoded by this engine"):
            replies = self.generate(requests)
            with model.reading():
                for request, reply in zip(requests, replies, strict=True):
                    size = len(reply.ids)
                    ids_T = torch.tensor([*request.prompt, *reply.ids], device=model.device)
                    logits_NV = self.model(ids_T[None]).logits[0, -size - 1 : -1].float()
                    found_N = torch.tensor(reply.log_probs, device=model.device)
                    gaps.append(unexplained_gap(found_N, logits_NV, ids_T[-size:], model.dtype))
        self.forget()
        for gap in filter(None, gaps):
            raise ConfigError(
                f"{name} must decode as in its forward pass, got log-probs with a cache that "
                f"differ by up to {gap:.2g}; use another engine for it"
            )

    # --- sampling ------------------------------------------------------------------------

    def submit(self, requests: Iterable[Request]) -> None:
        self.need_open()
        rows = []
        for request in requests:
            if request.sampling.pattern is not None:
                raise ConfigError("constrained replies need backend='vllm' or 'sglang'")
            rows.append(Row.of(request, self, self._causal.vocabulary))
        self._waiting.extend(rows)

    def poll(self, timeout: float | None = None) -> list[Completion]:
        self.need_open()
        if not self.running:
            return []
        if fingerprint(self.model) != self._weights:
            if len(self._decoder):
                raise EngineError(
                    f"the model's weights were changed while {len(self._decoder)} replies were "
                    "running; take them with poll, or drop them with cancel, before training"
                )
            self.forget()  # the prefix cache is of the old weights
        deadline = None if timeout is None else time.monotonic() + timeout
        finished: list[Row] = []
        with self._causal.reading():
            while not finished and self.running:
                if count := min(len(self._waiting), self._decoder.pool.free):
                    finished = self._decoder.join(list(islice(self._waiting, count)))
                    for _ in range(count):
                        self._waiting.popleft()
                else:
                    finished = self._decoder.step()
                if deadline is not None and time.monotonic() >= deadline:
                    break
        return [row.completion() for row in finished]

    @property
    def running(self) -> int:
        return len(self._waiting) + len(self._decoder)

    def cancel(self) -> list[Completion]:
        dropped = [*self._decoder.cancel(), *self._waiting]
        self._waiting.clear()
        return [row.completion() for row in dropped]

    # --- scoring -------------------------------------------------------------------------

    def score(
        self, sequences: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        self.need_open()
        if not temperature > 0:
            raise ConfigError(f"temperature must be above 0 to score, got {temperature}")
        for sequence in sequences:
            if len(sequence) > self.context_length:
                raise ConfigError(
                    f"a sequence must have at most {self.context_length} tokens, "
                    f"got {len(sequence)}"
                )
            check_ids(sequence, self._causal.vocabulary)
        return score(self._causal, sequences, temperature)

    # --- weights -------------------------------------------------------------------------

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Copy weights in place, or only take the version where they are the model's own.

        Nothing is written before all were checked, so weights that an iterator makes one by one are
        in memory together.
        """
        self._take(dict(named_tensors), whole=True)
        self.finish_loading(version)

    def load_bucket(self, bucket: Bucket | bytes) -> None:
        self._take(dict(weights_in(bucket)), whole=False)

    @torch.no_grad()
    def _take(self, given: dict[str, Tensor], *, whole: bool) -> None:
        """Copy weights in place, or none if one does not fit or is missing in a ``whole`` model."""
        self.need_open()
        self.need_idle()
        own: dict[str, Tensor] = self.model.state_dict(keep_vars=True)
        reached = {id(own[name]) for name in given if name in own}
        if problem := _misfit(own, given) or (whole and self._missing(reached)):
            raise ConfigError(f"{problem}; nothing was changed")
        for name, tensor in given.items():
            if own[name].data_ptr() != tensor.data_ptr():  # else they are the model's own
                own[name].copy_(tensor)
        self._reached |= reached

    def finish_loading(self, version: int) -> None:
        reached, self._reached = self._reached, set()
        if problem := self._missing(reached):
            raise ConfigError(problem)
        self.version = version
        self.forget()

    def _missing(self, reached: set[int]) -> str:
        """Return which parameters were not ``reached``, by id, as a sentence; "" if all were."""
        parameters = self.model.named_parameters()
        missing = [name for name, one in parameters if id(one) not in reached]
        return f"weights are missing: {_few(missing)}" if missing else ""

    def weight_dtype(self, name: str) -> torch.dtype | None:
        found = dict(self.model.named_parameters()).get(name)
        return None if found is None else found.dtype

    def weight_sums(self) -> dict[str, WeightSum]:
        return weight_sums(self.model.named_parameters())

    def sleep(self) -> None:
        """Free the cache while a trainer works; it is built again with the next reply."""
        if not self.running:
            self._decoder.forget()

    def close(self) -> None:
        """Drop what is running and free the cache. The model is the caller's."""
        self.cancel()
        self._decoder.forget()
        self._closed = True

    def forget(self) -> None:
        self._decoder.forget()
        self._weights = fingerprint(self.model)


def fingerprint(model: nn.Module) -> tuple[int, int]:
    """Return numbers that change when parameters are written to or replaced.

    A write through ``.data`` goes unnoticed.
    """
    writes = places = 0
    for parameter in model.parameters():
        writes += 0 if parameter.is_inference() else parameter._version
        places = hash((places, parameter.data_ptr()))
    return writes, places


def _misfit(own: dict[str, Tensor], given: dict[str, Tensor]) -> str:
    """Return which given weights are not a model's ``own``, as a sentence; "" if all fit."""
    if unknown := sorted(given.keys() - own.keys()):
        return f"the model has no weights called {_few(unknown)}"
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            return f"{name} must have shape {tuple(own[name].shape)}, got {tuple(tensor.shape)}"
    return ""


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more

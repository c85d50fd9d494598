"""vLLM as an engine: token ids in, token ids and log-probs out, weights pushed in place."""

from __future__ import annotations

import copy
import itertools
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Completion, Engine, EngineError, Request
from llm_gym_agents.engines.replies import Row, check_prompt, end_ids_of
from llm_gym_agents.engines.vllm import runtime as vllm_runtime
from llm_gym_agents.engines.vllm.process import VLLMProcess
from llm_gym_agents.engines.weight_push import Bucket, WeightSum, buckets, to_bytes
from llm_gym_agents.model.load import load_generation_config


class VLLMEngine(Engine):
    """Samples with vLLM.

    Log-probs are those of ``softmax(logits / temperature)``. With ``top_p`` or a pattern, vLLM
    normalises them over the remaining tokens, so do not train with these.

    Args:
        path: A model folder or a hub name.
        tokenizer: Needed only for stop strings and patterns.
        end_ids: Ids that end a reply; by default those of model folder and tokenizer.
        separate: Run vLLM in its own process, which works while environments step. In this process
            it starts faster and sends less data.
        dtype: float32, bfloat16, float16 or auto: as saved, but float32 on a CPU, because not every
            CPU supports bfloat16.
        max_model_len: Maximum tokens of prompt and reply; by default the model's context.
        tensor_parallel_size: GPUs to spread the model over.
        gpu_memory_utilization: Share of a GPU's memory that may be in use, by vLLM's weights and
            cache and by all other processes together.
        cache_gb: Memory of the KV cache in whole GiB. The default on a CPU is 1. On a GPU it
            replaces ``gpu_memory_utilization``, for several engines on one GPU.
        max_rows: Maximum replies that run at once; others wait.
        sleeps: Enable ``sleep``, which frees GPU memory for a trainer.
        patterns: Enable ``Sampling.pattern``.
        eager: Use no CUDA graphs: starts faster, decodes slower.
        stall_s: Seconds of silence after which the process counts as failed.
        trust_remote_code: Whether to run Python code that comes with the model.
    """

    def __init__(
        self,
        path: str,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        end_ids: Iterable[int] | None = None,
        separate: bool = False,
        dtype: str = "auto",
        max_model_len: int | None = None,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        cache_gb: int | None = None,
        max_rows: int = 256,
        sleeps: bool = False,
        patterns: bool = False,
        eager: bool = False,
        stall_s: float = 600.0,
        trust_remote_code: bool = False,
    ) -> None:
        counts = {"cache_gb": cache_gb, "max_rows": max_rows, "max_model_len": max_model_len}
        for name, count in (counts | {"tensor_parallel_size": tensor_parallel_size}).items():
            if count is not None and (count < 1 or count != int(count)):
                raise ConfigError(f"{name} must be a whole number, at least 1, got {count}")
        if stall_s <= 0 or not 0 < gpu_memory_utilization <= 1:
            raise ConfigError(
                "stall_s must be above 0 and gpu_memory_utilization in (0, 1], got "
                f"{stall_s} and {gpu_memory_utilization}"
            )
        self.tokenizer, self.path = tokenizer, path
        self.patterns, self.sleeps = patterns, sleeps
        self._direct = not separate and tensor_parallel_size == 1
        self._names = itertools.count()
        self._requests: dict[str, Row] = {}
        self._asleep = False
        self._reached: set[str] = set()
        self._vllm = VLLMProcess(
            path,
            separate=separate,
            stall_s=stall_s,
            replies=self._requests,
            cache_gb=cache_gb,
            dtype="float32" if dtype == "auto" and not torch.cuda.is_available() else dtype,
            max_model_len=max_model_len,
            tensor_parallel_size=tensor_parallel_size,
            gpu_memory_utilization=gpu_memory_utilization,
            max_num_seqs=max_rows,
            enable_sleep_mode=sleeps,
            enable_prefix_caching=True,
            enforce_eager=eager,
            trust_remote_code=trust_remote_code,
            tokenizer_inside=patterns,
        )
        try:
            self._read_model_config(trust_remote_code, end_ids)
        except BaseException:
            self.close()
            raise

    def _read_model_config(self, trust_remote_code: bool, end_ids: Iterable[int] | None) -> None:
        """Read vLLM's resolved settings, and make its processes end with this one."""
        found = self._vllm.llm_engine.model_config
        self.context_length, self.dtype = int(found.max_model_len), found.dtype
        self._vocabulary = int(found.get_vocab_size())
        own = AutoConfig.from_pretrained(self.path, trust_remote_code=trust_remote_code)
        owners = (own, load_generation_config(self.path), self.tokenizer)
        self.end_ids = frozenset(end_ids_of(*owners) if end_ids is None else end_ids)
        types = self._vllm.ask("collective_rpc", "llm_gym_parameters")[0]
        self._dtypes = {name: getattr(torch, type[6:]) for name, type in types.items()}
        packed = self._vllm.ask("collective_rpc", "llm_gym_packed")[0]
        self.packed_weights = {**type(self).packed_weights, **packed}
        if not self._direct:
            self._vllm.ask("collective_rpc", "llm_gym_follow", args=(os.getpid(),))

    # --- sampling ------------------------------------------------------------------------

    def submit(self, requests: Iterable[Request]) -> None:
        self._need_open()
        rows = []
        for request in requests:
            if request.sampling.pattern is not None and not self.patterns:
                raise ConfigError("a pattern needs an engine that was started with patterns=True")
            rows.append(Row.of(request, self, self._vocabulary))
        parameters = [self._parameters(row) for row in rows]
        names = [str(next(self._names)) for _ in rows]
        for name, row, own in zip(names, rows, parameters, strict=True):
            self._requests[name] = row  # before vLLM has it: an interrupt must find it here
            try:
                self._vllm.add(name, row.prompt, own)
            except ConfigError:
                self._drop(names)
                raise

    def poll(self, timeout: float | None = None) -> list[Completion]:
        self._need_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        finished: list[Completion] = []
        while self._requests and not finished:
            for output in self._vllm.step():
                if (done := self._take(output)) is not None:
                    finished.append(done)
            if deadline is not None and time.monotonic() >= deadline:
                break
        return finished

    @property
    def running(self) -> int:
        return len(self._requests)

    def cancel(self) -> list[Completion]:
        """Cancel all running requests; their partial replies are lost."""
        dropped = self._drop(list(self._requests))
        if dropped and self._vllm.is_open and not self._vllm.separate:
            # vLLM notes a block as cached before it computes it, and an interrupt may have come
            # in between.
            with suppress(EngineError):
                self._forget()
        return [row.completion() for row in dropped]

    def _drop(self, names: list[str]) -> list[Row]:
        dropped = [self._requests.pop(name) for name in names if name in self._requests]
        if dropped and self._vllm.is_open:
            with suppress(EngineError):  # one that is dead has dropped them as well
                self._vllm.abort(names)
        return dropped

    def _parameters(self, row: Row) -> Any:
        """Return vLLM's parameters; stop strings are looked for here, token by token."""
        sampling, streamed = row.request.sampling, row.strings is not None
        own = copy.copy(
            vllm_runtime.parameters(sampling, limit=row.limit, ends=row.ends, streamed=streamed)
        )
        own.seed = row.request.seed
        return own

    def _take(self, output: Any) -> Completion | None:
        row = self._requests.get(output.request_id)
        if row is None:  # cancelled, and this was still on its way
            return None
        reply = output.outputs[0]
        finish = vllm_runtime.finish_of(reply) if output.finished else None
        ids, log_probs = list(reply.token_ids), list(reply.logprobs.logprobs)
        if row.strings is None:
            if finish is None:
                return None
            row.ids, row.log_probs, row.finish = ids, log_probs, finish
        elif not any(map(row.take, ids, log_probs)):
            return None
        del self._requests[output.request_id]
        if finish is None:
            self._vllm.abort([output.request_id])
        return row.completion()

    # --- scoring -------------------------------------------------------------------------

    def score(
        self, sequences: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        """Return the log-prob of every token of each sequence but the first.

        This computes every prompt anew, because vLLM cannot score tokens in its prefix cache.
        """
        self._need_open()
        if temperature != 1.0:
            raise ConfigError(f"vLLM scores at temperature 1 only, got {temperature}")
        if self.running:
            raise EngineError(f"score needs an idle engine, got {self.running} running")
        for ids in sequences:
            check_prompt(ids, self.context_length, self._vocabulary)
        names = [str(next(self._names)) for _ in sequences]
        scores: dict[str, list[float]] = {}
        try:
            for name, ids in zip(names, sequences, strict=True):
                self._vllm.add(name, ids, vllm_runtime.scoring_parameters())
            while len(scores) < len(names):
                for output in self._vllm.step():
                    if output.finished:
                        pairs = zip(output.prompt_token_ids, output.prompt_logprobs, strict=True)
                        scores[output.request_id] = [at[id].logprob for id, at in pairs if at]
        except BaseException:
            if self._vllm.is_open:
                self._vllm.abort(names)
            raise
        return [scores[name] for name in names]

    # --- weights -------------------------------------------------------------------------

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        for bucket in buckets(named_tensors):
            self.load_bucket(bucket)
        self.finish_loading(version)

    def load_bucket(self, bucket: Bucket | bytes) -> None:
        """Write some of the weights, which may be in another process's GPU memory."""
        self._need_open()
        self.need_idle()
        given = bucket if isinstance(bucket, bytes) or self._direct else to_bytes(bucket)
        self._reached.update(self._load(given))

    def _load(self, bucket: Bucket | bytes) -> list[str]:
        written: list[list[str]] = self._vllm.ask("collective_rpc", "llm_gym_load", args=(bucket,))
        return written[0]

    def finish_loading(self, version: int) -> None:
        reached, self._reached = self._reached, set()
        if missing := sorted(set(self._dtypes) - reached):
            raise ConfigError(f"weights are missing for {', '.join(missing[:3])} of vLLM's model")
        self._forget()
        self.version = version

    def weight_dtype(self, name: str) -> torch.dtype:
        """Return the type of a weight; a few models keep some wider than the rest."""
        found: torch.dtype = self._dtypes.get(name, self.dtype)
        return found

    def weight_sums(self) -> dict[str, WeightSum] | None:
        """Return checksums of the parameters; None if they are split over workers."""
        self._need_open()
        sums, *others = self._vllm.ask("collective_rpc", "llm_gym_sums")
        return None if others else {name: WeightSum(*each) for name, each in sums.items()}

    def _forget(self) -> None:
        """Invalidate the prefix cache by changing the salt of new requests.

        Emptying it would take vLLM milliseconds after each update, because it visits every block in
        Python. Blocks with an old salt are never matched and are reused first.
        """
        self._vllm.salt += 1

    def sleep(self) -> None:
        """Give the GPU's memory back until ``wake``; the weights wait in the host's."""
        self._need_open()
        if self.sleeps and not self._asleep:
            if self.running:
                raise EngineError(f"vLLM cannot sleep with {self.running} replies running")
            self._vllm.ask("sleep", level=1)
            self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._need_open()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # torch keeps what the trainer has freed to itself
            self._vllm.ask("wake_up")

    # --- life and death ------------------------------------------------------------------

    def close(self) -> None:
        self._vllm.close()

    def _need_open(self) -> None:
        if not self._vllm.is_open:
            raise EngineError("the engine is closed")
        if self._asleep:
            raise EngineError("the engine is asleep; call wake() first")

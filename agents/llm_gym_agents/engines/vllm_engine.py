"""vLLM as an engine: token ids in, token ids and log-probs out, weights pushed in place."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from multiprocessing import active_children
from typing import Any, NamedTuple, NoReturn

from torch import Tensor
from transformers import AutoConfig, GenerationConfig, PreTrainedTokenizerBase

from llm_gym.errors import ConfigError
from llm_gym_agents.engines import vllm_runtime
from llm_gym_agents.engines.base import (
    Completion,
    Engine,
    EngineError,
    FinishReason,
    Request,
    Sampling,
    check_ids,
    check_prompt,
    end_ids_of,
)
from llm_gym_agents.engines.rows import Row, StopStrings
from llm_gym_agents.engines.weight_push import buckets, send

LOOK_EVERY_S = 1.0
"""How often vLLM's processes are looked after while they are waited for."""
_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class _Running(NamedTuple):
    request: Request
    row: Row | None
    """Only for stop strings, which are looked for token by token."""


class VLLMEngine(Engine):
    """Samples with vLLM.

    Log-probs are those of ``softmax(logits / temperature)``, as everywhere; with ``top_p``,
    ``top_k``, ``min_p`` or a pattern vLLM gives them among the tokens that these leave, so train
    without them.

    Args:
        path: A model folder or a hub name.
        tokenizer: For stop strings and patterns only.
        end_ids: Ids that end a reply; by default what the folder and the tokenizer say.
        separate: Run vLLM in a process of its own, which works while environments move, instead
            of in this one, which starts faster and has less to send around.
        dtype: float32, bfloat16, float16 or auto (as saved).
        max_model_len: Most tokens of prompt and reply; by default what the model allows.
        tensor_parallel_size: GPUs to spread the model over.
        gpu_memory_utilization: Share of a GPU that vLLM takes for weights and cache.
        cache_gb: Memory of the key-value cache on a CPU.
        max_rows: Most replies that run at once; others wait.
        sleeps: Start so that ``sleep`` can give the GPU's memory to a trainer.
        patterns: Start so that ``Sampling.pattern`` can be used.
        eager: No CUDA graphs: starts sooner, decodes slower.
        stall_s: Seconds without any progress after which vLLM is given up.
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
        cache_gb: float = 1.0,
        max_rows: int = 256,
        sleeps: bool = False,
        patterns: bool = False,
        eager: bool = False,
        stall_s: float = 600.0,
        trust_remote_code: bool = False,
    ) -> None:
        if stall_s <= 0:
            raise ConfigError(f"stall_s must be above 0, got {stall_s}")
        self._llm: Any = None
        others = set(active_children())
        self._stepper = ThreadPoolExecutor(1, "vllm-step") if separate else None
        self._llm = vllm_runtime.start(
            path,
            separate=separate,
            cache_gb=cache_gb,
            dtype=dtype,
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
        self._children = set(active_children()) - others
        self.tokenizer, self.path = tokenizer, path
        self.separate, self.patterns, self.sleeps, self.stall_s = (
            separate,
            patterns,
            sleeps,
            stall_s,
        )
        found = self._llm.llm_engine.model_config
        self.context_length = int(found.max_model_len)
        self.dtype = found.dtype
        self._vocabulary = int(found.get_vocab_size())
        self._direct = not separate and tensor_parallel_size == 1
        own = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
        owners = (own, _generation_config(path), tokenizer)
        self.end_ids = frozenset(end_ids_of(*owners) if end_ids is None else end_ids)
        self._names = itertools.count()
        self._requests: dict[str, _Running] = {}
        self._parameters: dict[tuple[Sampling, int], Any] = {}
        self._asleep = False

    @staticmethod
    def need_package(settings: Mapping[str, Any]) -> None:
        """Raise ``MissingExtraError`` if vLLM is not installed."""
        vllm_runtime.need_vllm()

    # --- sampling ------------------------------------------------------------------------

    def submit(self, requests: Iterable[Request]) -> None:
        """Queue requests: all of them, or none if one is refused."""
        self._need_open()
        ready = [self._prepare(request) for request in requests]
        for running, parameters in ready:
            name = str(next(self._names))
            prompt = {"prompt_token_ids": list(running.request.prompt)}
            parameters.seed = running.request.seed  # vLLM copies them before it returns
            self._guard(self._engine.add_request, name, prompt, parameters)
            self._requests[name] = running

    def poll(self, timeout: float | None = None) -> list[Completion]:
        """Work until a reply has finished; return all that have. See ``Engine.poll``."""
        self._need_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        finished: list[Completion] = []
        while self._requests and not finished:
            for output in self._step():
                if (done := self._take(output)) is not None:
                    finished.append(done)
            if deadline is not None and time.monotonic() >= deadline:
                break
        return finished

    @property
    def running(self) -> int:
        """Requests that were submitted and not yet returned."""
        return len(self._requests)

    def cancel(self) -> list[Completion]:
        """Drop whatever is running. vLLM keeps what was sampled so far to itself."""
        dropped, self._requests = self._requests, {}
        if dropped and self._llm is not None:
            self._guard(self._engine.abort_request, list(dropped))
        return [
            Completion([], [], FinishReason.CANCELLED, self.version, running.request.key)
            for running in dropped.values()
        ]

    def _prepare(self, request: Request) -> tuple[_Running, Any]:
        sampling = request.sampling
        room = check_prompt(request.prompt, self.context_length, self._vocabulary)
        if sampling.pattern is not None and not self.patterns:
            raise ConfigError("a pattern needs an engine that was started with patterns=True")
        limit = min(sampling.max_tokens, room)
        ends = self.end_ids.union(sampling.stop_ids)
        row = None
        if sampling.stop_strings:
            if self.tokenizer is None:
                raise ConfigError("stop_strings need a tokenizer; pass one to VLLMEngine")
            strings = StopStrings(self.tokenizer, sampling.stop_strings)
            row = Row(request, list(request.prompt), limit, ends, strings, self.version)
        key = (sampling, limit)
        if key not in self._parameters:
            self._parameters[key] = vllm_runtime.parameters(
                sampling, limit=limit, ends=ends, streamed=row is not None
            )
        return _Running(request, row), self._parameters[key]

    def _take(self, output: Any) -> Completion | None:
        """Return the reply that ``output`` completes, if it does."""
        running = self._requests.get(output.request_id)
        if running is None:  # cancelled, and this was still on its way
            return None
        reply = output.outputs[0]
        if running.row is not None:
            return self._take_streamed(output.request_id, running.row, reply)
        if not output.finished:
            return None
        del self._requests[output.request_id]
        return Completion(
            list(reply.token_ids),
            list(reply.logprobs.logprobs),
            self._finish_of(reply),
            self.version,
            running.request.key,
        )

    def _take_streamed(self, name: str, row: Row, reply: Any) -> Completion | None:
        for token, log_prob in zip(reply.token_ids, reply.logprobs.logprobs, strict=True):
            if row.take(token, log_prob):
                del self._requests[name]
                if reply.finish_reason is None:
                    self._guard(self._engine.abort_request, [name])
                return row.completion()
        return None

    def _finish_of(self, reply: Any) -> FinishReason:
        if reply.finish_reason not in _FINISH:
            raise EngineError(
                f"vLLM ended a reply with {reply.finish_reason!r}: it ran out of memory for keys "
                "and values, or failed; fewer max_rows or a smaller max_model_len need less"
            )
        return _FINISH[reply.finish_reason]

    # --- scoring -------------------------------------------------------------------------

    def score(
        self, sequences: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        """Return the log-prob of every token of each sequence but the first.

        This reads every prompt anew: vLLM cannot score what it has in its prefix cache.
        """
        self._need_open()
        if temperature != 1.0:
            raise ConfigError(f"vLLM scores at temperature 1 only, got {temperature}")
        if self.running:
            raise EngineError(f"score needs an idle engine, got {self.running} running")
        scores: dict[str, list[float]] = {}
        names = []
        for ids in sequences:
            if len(ids) >= self.context_length:
                raise ConfigError(
                    f"a sequence must have at most {self.context_length - 1} tokens to be scored "
                    f"by vLLM, got {len(ids)}"
                )
            check_ids(ids, self._vocabulary)
            names.append(str(next(self._names)))
            prompt, how = {"prompt_token_ids": list(ids)}, vllm_runtime.scoring_parameters()
            self._guard(self._engine.add_request, names[-1], prompt, how)
        while len(scores) < len(names):
            for output in self._step():
                if output.finished:
                    pairs = zip(output.prompt_token_ids, output.prompt_logprobs, strict=True)
                    scores[output.request_id] = [at[id].logprob for id, at in pairs if at]
        return [scores[name] for name in names]

    # --- weights -------------------------------------------------------------------------

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Write weights, named as Hugging Face names them, into vLLM's model, in place."""
        self._need_open()
        if self.running:
            raise EngineError(
                f"weights cannot change while {self.running} replies are running; take them with "
                "poll, or drop them with cancel"
            )
        reached: set[str] = set()
        for bucket in buckets(named_tensors):
            reached.update(self._load(bucket) if self._direct else send(bucket, self._load))
        wanted = self._guard(self._llm.collective_rpc, "llm_gym_parameters")[0]
        if missing := sorted(set(wanted) - reached):
            raise ConfigError(f"weights are missing for {', '.join(missing[:3])} of vLLM's model")
        self._guard(self._llm.reset_prefix_cache)
        self.version = version

    def _load(self, bucket: Any) -> list[str]:
        written: list[list[str]] = self._guard(
            self._llm.collective_rpc, "llm_gym_load", args=(bucket,)
        )
        return written[0]

    def sleep(self) -> None:
        """Give the GPU's memory back until ``wake``; the weights wait in the host's."""
        self._need_open()
        if self.sleeps and not self._asleep:
            if self.running:
                raise EngineError(f"vLLM cannot sleep with {self.running} replies running")
            self._guard(self._llm.sleep, level=1)
            self._asleep = True

    def wake(self) -> None:
        """Take the memory again."""
        if self._asleep:
            self._guard(self._llm.wake_up)
            self._asleep = False

    # --- life and death ------------------------------------------------------------------

    def close(self) -> None:
        """Drop what is running, end vLLM and free its memory. Safe to call twice."""
        llm, self._llm = self._llm, None
        self._requests.clear()
        if self._stepper is not None:
            self._stepper.shutdown(wait=False, cancel_futures=True)
        if llm is not None:
            vllm_runtime.stop(llm)

    @property
    def _engine(self) -> Any:
        return self._llm.llm_engine

    def _step(self) -> list[Any]:
        """Let vLLM work until it has something to say."""
        if self._stepper is None:
            return self._guard(self._engine.step)  # type: ignore[no-any-return]
        # vLLM waits without end for a process that hangs, or that was killed.
        step: Future[list[Any]] = self._stepper.submit(self._engine.step)
        deadline = time.monotonic() + self.stall_s
        while not wait([step], LOOK_EVERY_S).done:
            if not all(child.is_alive() for child in self._children):
                self._give_up("lost its process")
            if time.monotonic() >= deadline:
                self._give_up(f"has said nothing for {self.stall_s:g} s")
        return self._guard(step.result)  # type: ignore[no-any-return]

    def _guard(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        """Call into vLLM; whatever fails there ends the engine with one sentence."""
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - vLLM raises what it likes
            self._give_up(f"failed: {vllm_runtime.reason(error)}", error)

    def _give_up(self, what: str, cause: Exception | None = None) -> NoReturn:
        lost = len(self._requests)
        self.close()
        raise EngineError(
            f"vLLM {what}; it was ended with {lost} replies running, build a new engine to go on"
        ) from cause

    def _need_open(self) -> None:
        if self._llm is None:
            raise EngineError("the engine is closed")
        if self._asleep:
            raise EngineError("the engine is asleep; call wake() first")


def _generation_config(path: str) -> GenerationConfig | None:
    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:  # a folder may do without
        return None

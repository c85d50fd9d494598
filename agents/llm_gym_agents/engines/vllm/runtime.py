"""The only module that imports vLLM: starts, calls and stops it.

Works with vLLM 0.26 (torch 2.11) to 0.32 (torch 2.13). Everything that depends on a version or on
an internal of vLLM is in this file.
"""

import functools
import gc
import hashlib
import logging
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from llm_gym.core.errors import require_package
from llm_gym_agents.engines.base import EngineError, FinishReason, Sampling, restored_environ
from llm_gym_agents.engines.replies import portable_pattern

_WORKER_SIDE = "llm_gym_agents.engines.vllm.worker.WorkerSide"
_USUAL = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "PYTHONWARNINGS": "ignore",  # for processes of its own; it warns of its own code
}
_KINDS = 1024
_LEAST_SHARE = 0.02
"""Of a GPU, that must be free where the size of the cache is given."""

GRAPH_SIZES = (1, 2, 4, *range(8, 129, 8), *range(144, 257, 16), *range(288, 513, 32), 640, 768,
               1024, 1280, 1536, 2048)  # fmt: skip
"""Tokens of a step that vLLM records graphs for. Its own end at 512, where the first turn of 64
games adds a thousand or two: an H200 took 30 ms to read them, and takes 11."""

_LINKS = 8
"""Engines of one shape that start at the same time and find what was compiled before."""

_inside: weakref.WeakSet[Any] = weakref.WeakSet()
"""Engines that live in this process."""


def start(path: str, *, separate: bool, cache_gb: int | None = None, **settings: Any) -> Any:
    """Return a running ``vllm.LLM``; every failure is an ``EngineError`` of one sentence."""
    require_package("vllm", "backend='vllm'")
    if not separate and _inside:
        # They would share vLLM's process groups, and the first to end takes them from the other.
        raise EngineError(
            "one vLLM engine lives in this process already; close it first, or pass separate=True"
        )
    variables = {
        **{name: os.environ.get(name, value) for name, value in _USUAL.items()},
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(separate)),
        "VLLM_CPU_KVCACHE_SPACE": str(int(cache_gb or 1)),
    }
    with restored_environ(), _interruptible(), _interrupts_are_ours(), warnings.catch_warnings():
        os.environ.update(variables)  # vLLM has no other way to be told these
        warnings.simplefilter("ignore")
        logging.getLogger("vllm").setLevel(variables["VLLM_LOGGING_LEVEL"].upper())
        settings |= _by_platform(cache_gb, eager=settings.get("enforce_eager", False))
        try:
            with _lasting_name(path) as name:
                llm = _make(name, settings)
        except BaseException as error:
            if not separate:
                free()
            if not isinstance(error, Exception):
                raise
            raise EngineError(f"vLLM could not start with {path!r}: {reason(error)}") from error
        if not separate:
            _inside.add(llm)
        return llm


@contextmanager
def _lasting_name(path: str) -> Iterator[str]:
    """Give a model folder a name by which vLLM finds what it has compiled in an earlier run.

    vLLM compiles anew for every path, and a trainer's folder is a temporary one. What is compiled
    depends on ``config.json`` alone, so a link in vLLM's cache is named after its content. The
    link stays, for what vLLM reads late. Engines of one shape that start at once have one each.
    """
    shape, name = Path(path) / "config.json", path
    with ExitStack() as stack:
        with suppress(OSError):  # no such folder (a hub's name), no place to write, no locks
            found = hashlib.sha256(shape.read_bytes()).hexdigest()[:16]
            import fcntl

            from vllm import envs

            place = Path(envs.VLLM_CACHE_ROOT) / "llm-gym"
            place.mkdir(parents=True, exist_ok=True)
            for number in range(_LINKS):
                link = place / f"{found}-{number}"
                lock = stack.enter_context(link.with_suffix(".lock").open("w"))
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Processes of vLLM may hold it, too.
                    stack.callback(fcntl.flock, lock, fcntl.LOCK_UN)
                    link.unlink(missing_ok=True)
                    link.symlink_to(Path(path).absolute(), target_is_directory=True)
                    name = str(link)
                    break
        yield name


def _by_platform(cache_gb: int | None, *, eager: bool) -> dict[str, Any]:
    """Return the settings that a CPU needs, or a GPU, whose cache may be given a size."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        # Reading a prompt in pieces rewinds the request's own generator after each, and one on a
        # CPU cannot be rewound: "CPU Generator does not use offset".
        return {"enable_chunked_prefill": False}
    made: dict[str, Any] = {}
    if not eager:
        made["compilation_config"] = {"cudagraph_capture_sizes": list(GRAPH_SIZES)}
    if cache_gb:
        # A share would be looked for among what everybody holds, and while nobody moves.
        size = int(cache_gb) << 30
        made |= {"kv_cache_memory_bytes": size, "gpu_memory_utilization": _LEAST_SHARE}
    return made


def _make(path: str, settings: dict[str, Any]) -> Any:
    import vllm

    return vllm.LLM(
        path,
        skip_tokenizer_init=not settings.pop("tokenizer_inside", False),
        logprobs_mode="processed_logprobs",
        worker_extension_cls=_WORKER_SIDE,
        disable_log_stats=True,
        use_tqdm_on_load=False,
        seed=0,
        **settings,
    )


def outputs_queue(llm: Any) -> Any:
    """Return the queue through which the process of vLLM answers."""
    return llm.llm_engine.engine_core.outputs_queue


def stop(llm: Any) -> bool:
    """End vLLM and its processes; return whether something of it is to be freed in this one."""
    llm.llm_engine.engine_core.shutdown()
    inside = llm in _inside
    _inside.discard(llm)
    return inside


def free() -> None:
    """Collect garbage, and end vLLM's process groups."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    gc.collect()
    cleanup_dist_env_and_memory()


def refusals() -> tuple[type[Exception], ...]:
    """Return the errors by which vLLM refuses a request and goes on."""
    from vllm.exceptions import VLLMValidationError

    return ValueError, VLLMValidationError


def keep_weights_in_place() -> None:
    """Keep a CPU model's linear weights where a push can reach them.

    vLLM hands them to oneDNN and removes them from the module. A later ``load_weights`` then
    raises, and ``reload_weights`` returns without a word and leaves the old ones in use.
    """
    import vllm._custom_ops as ops

    ops._supports_onednn = False


@functools.lru_cache(_KINDS)
def parameters(sampling: Sampling, *, limit: int, ends: frozenset[int], streamed: bool) -> Any:
    """Return vLLM's ``SamplingParams``, cached: making one takes as long as a turn of a game.

    ``logprobs=0`` is the log-prob of the sampled token alone. Text is never made inside vLLM.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    regex = None if sampling.pattern is None else portable_pattern(sampling.pattern)
    made = SamplingParams(
        max_tokens=limit,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        ignore_eos=True,  # vLLM has no tokenizer to know it from; ``ends`` has it
        stop_token_ids=sorted(ends),
        output_kind=RequestOutputKind.DELTA if streamed else RequestOutputKind.FINAL_ONLY,
        structured_outputs=None if regex is None else StructuredOutputsParams(regex=regex),
    )
    # vLLM copies them deeply for each request: half of what it takes to add one. What it writes
    # into lists and sets is the same for all that are made here, except into a pattern's; the rest
    # of a copy is the request's own.
    if hasattr(made, "skip_clone"):
        made.skip_clone = regex is None
    return made


def finish_of(reply: Any) -> FinishReason:
    """Return why vLLM ended a reply; raise ``EngineError`` if that was no end at all."""
    if reply.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
        raise EngineError(
            f"vLLM ended a reply with {reply.finish_reason!r}: it ran out of memory for keys and "
            "values, or failed; fewer max_rows or a smaller max_model_len need less"
        )
    return FinishReason(reply.finish_reason)


def scoring_parameters() -> Any:
    """Return the parameters of a request that only scores its prompt."""
    from vllm import SamplingParams

    return SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False, ignore_eos=True)


def reason(error: BaseException) -> str:
    """Return the first line of the innermost cause that says something."""
    while error.__cause__ is not None:
        error = error.__cause__
    message = str(error).strip() or type(error).__name__
    if hasattr(error, "errors"):  # pydantic's, whose first line only counts the faults
        fault = error.errors()[0]
        message = ": ".join([*map(str, fault["loc"]), fault["msg"].removeprefix("Value error, ")])
    return message.split("\n", 1)[0]


@contextmanager
def _interrupts_are_ours() -> Iterator[None]:
    """Block SIGINT in processes that are started within this block.

    A terminal sends an interrupt to all of them, and vLLM's would end of it. What is blocked when
    a process is started stays blocked in it, and in those that it starts.
    """
    resource_tracker.ensure_running()  # starting it would unblock them
    usual = BaseProcess.start

    def start(process: BaseProcess) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            usual(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    BaseProcess.start = start  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseProcess.start = usual  # type: ignore[method-assign]


class _InterruptedError(BaseException):
    """Raised in place of ``KeyboardInterrupt``, which vLLM catches."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let an interrupt end this block; vLLM catches a ``KeyboardInterrupt`` and waits on."""
    usual = signal.getsignal(signal.SIGINT)
    if (
        usual is not signal.default_int_handler
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def end(*_: Any) -> None:
        raise _InterruptedError

    signal.signal(signal.SIGINT, end)
    try:
        yield
    except _InterruptedError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, usual)

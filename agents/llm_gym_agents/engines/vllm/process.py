"""``VLLMProcess``: every call to vLLM returns, or ends vLLM with one ``EngineError``.

vLLM raises errors of any type, and waits for ever for a dead worker process. Here both become an
``EngineError``, and running replies are dropped.
"""

import functools
import queue
import threading
import time
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from multiprocessing import active_children
from typing import Any, NoReturn

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.engines.vllm import runtime as vllm_runtime


class VLLMProcess:
    """A running vLLM, until ``close`` or its first failure."""

    def __init__(
        self,
        path: str,
        *,
        separate: bool,
        stall_s: float,
        replies: MutableMapping[str, Any],
        **settings: Any,
    ) -> None:
        self.separate, self.stall_s, self._replies = separate, stall_s, replies
        self.salt = 0
        """Of the prefix cache: only what was read with the same one is found there."""
        others = set(active_children())
        self._llm: Any = vllm_runtime.start(path, separate=separate, **settings)
        self._children = set(active_children()) - others
        if separate:
            check = weakref.WeakMethod(self._check_alive)  # a thread of vLLM holds the queue
            wait_with_timeout(
                vllm_runtime.outputs_queue(self._llm),
                lambda since: alive(since) if (alive := check()) is not None else None,
            )

    @property
    def is_open(self) -> bool:
        return self._llm is not None

    @property
    def llm_engine(self) -> Any:
        """The engine inside vLLM; the methods below guard the calls to it."""
        return self._llm.llm_engine

    # --- what it can be asked ------------------------------------------------------------

    def add(self, name: str, prompt: Sequence[int], parameters: Any) -> None:
        """Begin a reply; an invalid request does not end vLLM."""
        known = {"prompt_token_ids": list(prompt), "cache_salt": str(self.salt)}
        self._guard(self._add, name, known, parameters)

    def step(self) -> list[Any]:
        outputs: list[Any] = self._guard(self.llm_engine.step)
        return outputs

    def abort(self, names: list[str]) -> None:
        """Cancel replies; some of them may have ended."""
        self._guard(self.llm_engine.abort_request, names)

    def ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of vLLM's ``LLM``; a dead or silent process raises ``EngineError``."""
        work: Callable[[], Any] = functools.partial(getattr(self._llm, method), *args, **kwargs)
        if self.separate:
            return self._guard(call_with_timeout, work, self._check_alive)
        return self._guard(work)

    def _add(self, name: str, prompt: dict[str, Any], parameters: Any) -> None:
        try:
            self.llm_engine.add_request(name, prompt, parameters)
        except vllm_runtime.refusals() as error:
            raise ConfigError(f"vLLM refuses a request: {vllm_runtime.reason(error)}") from error

    # --- how it ends ---------------------------------------------------------------------

    def give_up(self, what: str, cause: Exception | None = None) -> NoReturn:
        """End vLLM and raise ``EngineError`` with the reason."""
        lost = len(self._replies)
        self.close()
        raise EngineError(
            f"vLLM {what}; it was ended with {lost} replies running, build a new engine to go on"
        ) from cause

    def close(self) -> None:
        llm, self._llm = self._llm, None
        self._replies.clear()
        if llm is not None:
            inside = vllm_runtime.stop(llm)
            del llm  # it holds on to the memory
            if inside:
                vllm_runtime.free()

    def _guard(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return the result of ``work``; an unexpected failure ends vLLM."""
        try:
            return work(*args)
        except LLMGymError:
            raise
        except Exception as error:  # noqa: BLE001 - vLLM raises what it likes
            self.give_up(f"failed: {vllm_runtime.reason(error)}", error)

    def _check_alive(self, since: float) -> None:
        if not all(child.is_alive() for child in self._children):
            self.give_up("lost its process")
        if time.monotonic() - since >= self.stall_s:
            self.give_up(f"has said nothing for {self.stall_s:g} s")


Check = Callable[[float], None]
"""Called during a wait with the time at which it began; raises to end the wait."""
CHECK_EVERY_S = 1.0


def wait_with_timeout(answers: queue.Queue[Any], check: Check) -> None:
    """Make every ``answers.get()`` call ``check`` once a second while it waits.

    The wait stays in the caller's thread, so an interrupt ends it and loses no answer.
    """
    take = answers.get

    def get() -> Any:
        start = time.monotonic()
        while True:
            try:
                return take(timeout=CHECK_EVERY_S)
            except queue.Empty:
                check(start)

    answers.get = get  # type: ignore[assignment]


def call_with_timeout(work: Callable[[], Any], check: Check) -> Any:
    """Return what ``work`` returns, calling ``check`` once a second until then.

    ``work`` may never return, so it runs in a daemon thread that Python does not wait for at exit.
    """
    start, answer = time.monotonic(), Future[Any]()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            return answer.result(CHECK_EVERY_S)
        except NotYet:
            if answer.done():  # ``work`` itself raised a TimeoutError
                raise
            check(start)

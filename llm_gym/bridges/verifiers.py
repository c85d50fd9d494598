"""Environments of verifiers, of one turn and of several: ``llm_gym/Verifiers-v0``.

verifiers asks a client for replies and is not asked itself. So its rollout runs in an event loop of
ours, with a client that waits: ``begin`` and ``play`` let the loop run until the next question, or
until the rollout has been scored.
"""

import asyncio
import atexit
import contextlib
import io
import os
from asyncio import FIRST_COMPLETED
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Unpack
from weakref import WeakValueDictionary

from llm_gym.bridges.base import BridgeArgs, BridgeEnv, BridgeStep, need_package, stable
from llm_gym.core.errors import ConfigError, WorkerError
from llm_gym.core.outcome import StopReason

_PACKAGE = "verifiers"
_ENOUGH_ROWS = 100


class VerifiersEnv(BridgeEnv):
    """An environment of verifiers.

    Description:
        Any environment that ``verifiers.load_environment`` loads, one row of its data for each
        episode, scored by its own rubric.

    Actions:
        The reply, as it is. There are no tool calls: an environment of tools takes the first reply
        as the last.

    Observations:
        The messages since the last reply. A system message of the prompt is ``system_prompt``.

    Rewards:
        The rubric's, at the end.

    Episode end:
        When verifiers stops the rollout, which it then scores. Won is a reward of at least
        ``success_reward``. A rollout that ends in an error is cut.

    Info:
        The common keys, ``system_prompt`` of ``reset``; ``foreign`` has the ``metrics`` and the
        ``stop_condition`` at the end.

    Args:
        env_id: What ``load_environment`` takes: an installed module with a function of that name.
        env_args: Arguments of that function.
        success_reward: The least reward that counts as a success.
        **common: See ``BridgeEnv``.
    """

    move_name = "reply"
    examples = ("yes", "no", "42", "I do not know.")

    def __init__(
        self,
        *,
        env_id: str = "",
        env_args: Mapping[str, Any] | None = None,
        success_reward: float = 1.0,
        **common: Unpack[BridgeArgs],
    ) -> None:
        suite = need_package(_PACKAGE)
        if not env_id:
            raise ConfigError("env_id must name an environment that verifiers can load, got ''")
        self.env_id, self.success_reward = env_id, success_reward
        super().__init__(**common)
        with self._rng_guard:
            self._game = _load(suite, env_id, dict(env_args or {}))
            self._rows, self._test_rows = _data(self._game)
        self.has_splits = self._test_rows is not None or len(self._rows) >= _ENOUGH_ROWS
        self._client = _waiting_client(self)
        self._rollout: asyncio.Task[Any] | None = None
        self._question: asyncio.Future[Any] | None = None
        self._reply: asyncio.Future[str] | None = None
        self._testing = False
        self.system_prompt = ""

    # --- the game ------------------------------------------------------------------------

    def begin(self, seed: int) -> str:
        self._drop_rollout()
        rows = self._test_rows if self._testing else self._rows
        row = dict(rows[seed % len(rows)])
        self.instance = self.env_id, row.get("prompt"), row.get("answer")
        rollout = self._game._run_rollout_state(row, self._client, "llm", {})
        self._rollout = _loop().create_task(rollout)
        # An environment that is thrown away takes its rollout with it, without a complaint.
        self._rollout._log_destroy_pending = False  # type: ignore[attr-defined]
        messages = self._next_question()
        if messages is None:
            raise WorkerError(f"{self.env_id} ended before its first question: {self._why()}")
        self.system_prompt = _texts(messages, ("system",))
        return _texts(messages, ("user", "assistant", "tool"))

    def play(self, text: str) -> BridgeStep:
        assert self._reply is not None, "begun"
        self._reply.set_result(text)
        messages = self._next_question()
        if messages is not None:
            return BridgeStep(_texts(_after_reply(messages), ("user", "tool", "system")))
        if why := self._why():
            return BridgeStep(f"The rollout failed: {why}", 0.0, StopReason.ERROR)
        assert self._rollout is not None, "begun"
        state = self._rollout.result()
        reward = float(state.get("reward") or 0.0)
        stop = StopReason.WON if reward >= self.success_reward else StopReason.LOST
        said = {
            "metrics": dict(state.get("metrics") or {}),
            "stop_condition": state.get("stop_condition"),
        }
        last = _texts(_after_reply(state.get("completion") or []), ("user", "tool"))
        return BridgeStep(last or f"Reward: {reward:g}.", reward, stop, True, said)

    def quitting_cost(self) -> float:
        """Nothing: a rollout is paid at its end, and what was cut is not."""
        return 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode; where there are rows for evaluation, they are the split ``test``."""
        split = (options or {}).get("split")
        self._testing = split == "test" and self._test_rows is not None
        if self._test_rows is not None and split in ("train", "test"):
            options = None
        text, info = super().reset(seed=seed, options=options)
        if self.system_prompt:
            info["system_prompt"] = self.system_prompt
        return text, info

    def close(self) -> None:
        super().close()
        with self._rng_guard:
            self._drop_rollout()

    # --- the loop ------------------------------------------------------------------------

    async def ask(self, messages: Any) -> str:
        """Wait for the reply to ``messages``; called by verifiers, inside the loop."""
        self._reply = asyncio.get_running_loop().create_future()
        if self._question is not None and not self._question.done():
            self._question.set_result(messages)
        return await self._reply

    def _next_question(self) -> Any:
        """Run the rollout until it asks for a reply; return the messages, or None at its end."""
        assert self._rollout is not None, "begun"
        self._question = _loop().create_future()
        _run(asyncio.wait({self._rollout, self._question}, return_when=FIRST_COMPLETED))
        return self._question.result() if self._question.done() else None

    def _why(self) -> str:
        assert self._rollout is not None, "begun"
        error = self._rollout.exception() or self._rollout.result().get("error")
        return f"{type(error).__name__}: {error}"[:200] if error else ""

    def _drop_rollout(self) -> None:
        if self._rollout is not None and not self._rollout.done():
            self._rollout.cancel()
            _run(asyncio.wait({self._rollout}))
        self._rollout = None


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all rollouts share: they run one at a time."""
    return _loop_of(os.getpid())


def _run(work: Any) -> None:
    """Run the loop until ``work`` is done, also where another loop runs, as in a notebook."""
    around = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        _loop().run_until_complete(work)
    finally:
        asyncio._set_running_loop(around)


_LOADED: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""An environment of verifiers plays any number of rollouts at once, so those of the same arguments
share one, and its data are read once, for as long as one of them lives."""


def _load(suite: Any, env_id: str, arguments: dict[str, Any]) -> Any:
    key = stable((env_id, arguments))
    if (found := _LOADED.get(key)) is not None:
        return found
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars
            game = suite.load_environment(env_id, **arguments)
            game.build_dataset()
            game.build_eval_dataset()
    except Exception as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"verifiers cannot load {env_id}: {why:.300}") from error
    _LOADED[key] = game
    return game


def _data(game: Any) -> tuple[Any, Any]:
    """Return the rows, and those for evaluation, None where there are no others."""
    rows, test = game.dataset, game.eval_dataset
    if rows is None and test is None:
        raise ConfigError("the environment must have rows: it has neither data set")
    return (test, None) if rows is None else (rows, test)


def _waiting_client(env: VerifiersEnv) -> Any:
    """Return a client of verifiers' that takes its replies from ``env``."""
    client = need_package(_PACKAGE, "verifiers.clients").Client
    types = need_package(_PACKAGE, "verifiers.types")

    async def get_response(self: Any, prompt: Any, model: str, *_: Any, **__: Any) -> Any:
        text = await env.ask(prompt)
        message = types.ResponseMessage(
            content=text, finish_reason="stop", is_truncated=False, tool_calls=None
        )
        return types.Response(id="0", created=0, model=model, message=message)

    async def close(self: Any) -> None:
        return

    own = {"get_response": get_response, "close": close}
    # What would talk to a server, and is never called.
    unused = {name: close for name in client.__abstractmethods__ if name not in own}
    return type("WaitingClient", (client,), {**unused, **own})(None)


def _texts(messages: Iterable[Any], roles: tuple[str, ...]) -> str:
    """Return what messages of these roles say, one below the other."""
    return "\n\n".join(_content(message) for message in messages if _get(message, "role") in roles)


def _content(message: Any) -> str:
    content = _get(message, "content")
    if isinstance(content, list):  # of parts, of which some are text
        content = "".join(str(_get(part, "text") or "") for part in content)
    return str(content or "")


def _get(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _after_reply(messages: Sequence[Any]) -> Sequence[Any]:
    at = max((at for at, m in enumerate(messages) if _get(m, "role") == "assistant"), default=-1)
    return messages[at + 1 :]

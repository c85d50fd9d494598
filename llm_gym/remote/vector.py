"""Many environments of one server as one vector environment: one request for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gymnasium.vector import AutoresetMode

from llm_gym.episodes.describe import Beginning
from llm_gym.errors import ConfigError, LLMGymError, RemoteError
from llm_gym.remote import wire
from llm_gym.remote.connection import Connection
from llm_gym.remote.env import RemoteEnv, needed, unpack_step
from llm_gym.remote.session import RemoteSession, any_seed, play, refusal
from llm_gym.vector.local_rows import Failure, Job
from llm_gym.vector.text_vector_env import TextVectorEnv

_OPERATIONS = {
    "step": wire.STEP,
    "step, reset when over": wire.STEP_AND_RESET,
    "reset": wire.RESET,
    "begin": wire.RESET,
    "call": wire.CALL,
}


class RemoteRows:
    """The rows of a vector environment, at the other end of a connection."""

    def __init__(self, connection: Connection, count: int) -> None:
        self._connection = connection
        self._sessions = [RemoteSession() for _ in range(count)]

    def __len__(self) -> int:
        return len(self._sessions)

    def run(self, jobs: Sequence[Job]) -> tuple[list[Any], dict[int, Failure]]:
        """Do every job, in one request; what can be told without asking is told at once."""
        answers: list[Any] = [None] * len(jobs)
        failures: dict[int, Failure] = {}
        asked, asks = [], []
        for at, (row, operation, argument) in enumerate(jobs):
            try:
                found = self._ask(row, operation, argument)
            except LLMGymError as error:
                failures[row] = Failure(f"raised {type(error).__name__}: {error}", error=error)
                continue
            if isinstance(found, tuple) and operation in _OPERATIONS:
                asked.append(at)
                asks.append((self._sessions[row], *found))
            else:
                answers[at] = found
        for at, answer in zip(asked, play(self._connection, asks) if asks else (), strict=True):
            row, operation, _ = jobs[at]
            try:
                answers[at] = _read(operation, answer)
            except LLMGymError as error:
                failures[row] = Failure(f"raised {type(error).__name__}: {error}", error=error)
        return answers, failures

    def close(self) -> None:
        """End the sessions there."""
        begun = [(session, wire.CLOSE, None) for session in self._sessions if session.number]
        with suppress(RemoteError):  # an idle session ends by itself
            play(self._connection, begun)
        self._connection.close()
        self._sessions = [RemoteSession() for _ in self._sessions]

    def _ask(self, row: int, operation: str, argument: Any) -> Any:
        """Return the operation and argument to send, or the answer where it is known here."""
        about = self._connection.about
        if operation == "describe":
            return about.observation_space, about.action_space, RemoteEnv.metadata, None
        if operation == "about":
            return {"env_id": "llm_gym/Remote-v0"}
        if operation in ("reset", "begin"):
            seed = argument.get("seed")
            if seed is None and not self._sessions[row].history:
                seed = any_seed()
            return wire.RESET, [None if seed is None else int(seed), argument.get("options")]
        if operation == "call":
            name, args, kwargs = argument
            if name in ("system_prompt", "has_splits"):
                return getattr(about, name)
            if name not in wire.CALLS or args or kwargs:
                raise ConfigError(f"{name} of a remote environment cannot be asked for")
            return wire.CALL, name
        if operation not in _OPERATIONS:
            raise ConfigError(f"a remote environment cannot do this: {operation}")
        return _OPERATIONS[operation], argument


def _read(operation: str, answer: Any) -> Any:
    if isinstance(answer, dict):
        raise refusal(answer)
    if operation == "call":
        return answer[0] if answer else None
    if operation not in ("reset", "begin"):
        return unpack_step(answer)
    try:
        observation, packed, instance, prompt = answer
        info = wire.unpack_info(packed)
    except (TypeError, ValueError, RecursionError) as error:
        raise RemoteError(f"the server's answer makes no sense: {error!s:.200}") from error
    if operation == "reset":
        return observation, 0.0, False, False, info
    return observation, 0.0, False, False, Beginning(observation, info, instance, prompt)


class RemoteVectorEnv(TextVectorEnv):
    """``num_envs`` environments of the server at ``url``; arguments as of ``RemoteEnv``."""

    def __init__(
        self,
        num_envs: int = 1,
        url: str | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        token_env: str = wire.TOKEN_VARIABLE,
        timeout: float = 60.0,
        tries: int = 5,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs must be at least 1, got {num_envs}")
        connection = Connection(needed(url), token_env, timeout, tries)
        super().__init__(RemoteRows(connection, num_envs), autoreset_mode=autoreset_mode)

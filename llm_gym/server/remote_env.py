"""``llm_gym/Remote-v0``: an environment on a server; lost requests are repeated."""

import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.error import ResetNeeded

from llm_gym.core.errors import ConfigError, RemoteError
from llm_gym.core.infos import Info, Options
from llm_gym.core.outcome import refuse_step
from llm_gym.core.spaces import AnyText
from llm_gym.core.text import shown
from llm_gym.episodes.play import Beginning
from llm_gym.evaluate.endpoint.http import (
    Backoff,
    HTTPError,
    JsonHTTP,
    is_transient,
    jitter,
    read_key,
)
from llm_gym.server import protocol


class RemoteEnv(gym.Env[str, str]):
    """The environment that ``llm-gym serve`` runs at ``url``.

    Episodes are identical to those of the same environment in this process. After a broken
    connection the client reconnects, and no step is played twice. If the server has lost the
    episode (it was restarted, or the session was idle for too long), the step fails; the next reset
    begins a new session.

    Args:
        url: URL of the server, such as ``http://127.0.0.1:8765``.
        token_env: The environment variable that holds the server's token, if it needs one.
        timeout: Maximum seconds to wait for an answer.
        tries: Maximum number of requests for one answer.
        render_mode: ``ansi`` or ``human``.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}

    def __init__(
        self,
        url: str | None = None,
        *,
        token_env: str = protocol.TOKEN_VARIABLE,
        timeout: float = 60.0,
        tries: int = 5,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode must be None, 'ansi' or 'human', got {render_mode!r}")
        self._settings: dict[str, Any] = {
            "token_env": token_env,
            "timeout": timeout,
            "tries": tries,
        }
        if not isinstance(url, str):
            raise ConfigError(
                "llm_gym/Remote-v0 needs url=, the address that llm-gym serve has printed"
            )
        self._url, self.render_mode = url, render_mode
        self._connection: Connection | None = Connection(self._url, **self._settings)
        about = self._connection.about
        self.has_splits = about.has_splits
        self.observation_space, self.action_space = about.observation_space, about.action_space
        self._not_ready = "has not begun"
        """Why no step can be played; "" during an episode."""
        self._instance: str | None = None
        self._prompt, self._screen = about.system_prompt, ""

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin a new episode; ``options`` go to the served environment."""
        super().reset(seed=seed)
        start = unpack_reset(self._ask(protocol.RESET, [seed, options]))
        self._instance, self._prompt, self._not_ready = start.instance_id, start.system_prompt, ""
        self._show("", start.observation)
        return start.observation, dict(start.info)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not isinstance(action, str):
            raise refuse_step(type(self).__name__, action, None)
        if self._not_ready:
            raise ResetNeeded(f"the episode {self._not_ready}; call reset() before step()")
        played = unpack_step(self._ask(protocol.STEP, action))
        if played[2] or played[3]:
            self._not_ready = "is over"
        self._show(action, played[0])
        return played

    def render(self) -> str | None:
        if self.render_mode == "ansi":
            return self._screen
        if self.render_mode is None:
            gym.logger.warn('render() shows nothing without render_mode="ansi" or "human"')
        return None

    def close(self) -> None:
        if self._connection is not None:
            with suppress(RemoteError):  # an idle session ends by itself
                if self._connection.number:
                    self._ask(protocol.CLOSE, None)
            self._connection.close()
        self._not_ready = "has not begun"

    # --- what text environments have beyond it ---------------------------------------------

    @property
    def system_prompt(self) -> str:
        return self._prompt

    def instance_id(self) -> str:
        if self._instance is None:
            raise NotImplementedError("the served environment has no instance ids")
        return self._instance

    def oracle_action(self) -> str:
        return str(self._call("oracle_action"))

    def oracle_value(self) -> float:
        return float(self._call(protocol.VALUE))

    def solver_action(self) -> str:
        return str(self._call("solver_action"))

    def random_action(self) -> str:
        return str(self._call("random_action"))

    def legal_actions(self) -> list[str] | None:
        actions: list[str] | None = self._call("legal_actions")
        return actions

    def action_pattern(self) -> str:
        return str(self._call("action_pattern"))

    # --- inside --------------------------------------------------------------------------

    def _call(self, name: str) -> Any:
        return unpack_call(name, self._ask(protocol.CALL, name))

    def _ask(self, operation: str, argument: Any) -> list[Any]:
        if self._connection is None:
            self._connection = Connection(self._url, **self._settings)
        before, self._not_ready = self._not_ready, "has failed"  # unless it is answered
        answer = self._connection.play(operation, argument)
        if isinstance(answer, list) or operation == protocol.CALL:
            self._not_ready = before
        if isinstance(answer, list):
            return answer
        if answer["error"] == protocol.REFUSED:
            raise ConfigError(answer["message"])
        raise RemoteError(f"the server says: {answer['message']}")

    def _show(self, action: str, text: str) -> None:
        self._screen = f"> {action}\n{text}" if action else text
        if self.render_mode == "human":
            sys.stdout.write(shown(self._screen, keep="\n\t") + "\n")

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins an episode of its own.
        return {**self.__dict__, "_connection": None, "_not_ready": "has not begun"}


@contextmanager
def _as_remote_error() -> Iterator[None]:
    """Turn any error in reading a server's answer into one sentence."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise RemoteError(f"the server's answer is invalid: {error!s:.200}") from error


@_as_remote_error()
def unpack_step(answer: list[Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Return the checked result of a step."""
    observation, reward, terminated, truncated, info = answer
    if type(terminated) is not bool or type(truncated) is not bool:
        raise TypeError("terminated and truncated must be true or false")
    number = protocol.unpack_number(reward)
    return protocol.text(observation), number, terminated, truncated, protocol.unpack_info(info)


@_as_remote_error()
def unpack_reset(answer: list[Any]) -> Beginning:
    """Return the checked start of an episode."""
    observation, info, instance, prompt = answer
    name = None if instance is None else protocol.text(instance)
    unpacked = protocol.unpack_info(info)
    return Beginning(protocol.text(observation), unpacked, name, protocol.text(prompt))


@_as_remote_error()
def unpack_call(name: str, answer: list[Any]) -> Any:
    """Return the result of calling ``name``, with its type checked."""
    (value,) = answer
    if name == protocol.VALUE:
        return protocol.unpack_number(value)
    found = protocol.texts(value)
    if isinstance(found, str) is (name == "legal_actions"):
        raise TypeError(f"{name} gave {found!r:.80}")
    return found


_MAX_LENGTH = 1 << 30


class About(NamedTuple):
    """A server's description of its environment."""

    observation_space: AnyText
    action_space: AnyText
    system_prompt: str
    has_splits: bool


class Connection:
    """A session on an environment server; the arguments are those of ``RemoteEnv``."""

    def __init__(self, url: str, token_env: str, timeout: float, tries: int) -> None:
        if not timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {timeout}")
        self._http = JsonHTTP(url, read_key(token_env))
        self._token_env = token_env
        self._new_session()
        self._timeout, self._backoff = timeout, Backoff(tries, first_s=0.1, longest_s=5.0)
        try:
            self.about = _read_about(self._try(lambda: self._http.get(protocol.ABOUT, timeout)))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            self.close()
            raise RemoteError(f"{self._http.url} is no llm-gym server: {error!s:.200}") from error
        except BaseException:
            self.close()
            raise

    def play(self, operation: str, argument: Any) -> Any:
        """Run one operation and return its answer, or error, in the form of ``protocol``.

        If the server has lost the session, a reset begins a new one.
        """
        try:
            answer = self._run(operation, argument)
            is_lost = isinstance(answer, dict) and answer["error"] == protocol.LOST
            if is_lost and operation == protocol.RESET and self.number:
                self._new_session()
                answer = self._run(operation, argument)
        except RemoteError:
            self._new_session()  # it is unknown whether the server has played it
            raise
        if not (isinstance(answer, dict) and answer["error"] in protocol.NOT_PLAYED):
            self.number += 1
        return answer

    def _new_session(self) -> None:
        self._name, self.number = secrets.token_urlsafe(16), 0

    def _run(self, operation: str, argument: Any) -> Any:
        """Return the answer; on failure, repeat the request, which is still played only once."""
        body = {"rows": [(self._name, self.number + 1, operation, argument)]}
        response = self._try(lambda: self._http.post(protocol.ROWS, body, self._timeout))
        answers = response.get("rows") if isinstance(response, dict) else None
        if isinstance(answers, list) and len(answers) == 1 and _is_answer(answers[0]):
            return answers[0]
        raise RemoteError(f"{self._http.url} answered with something else than one row")

    def close(self) -> None:
        self._new_session()
        self._http.close()

    def _try(self, ask: Callable[[], Any]) -> Any:
        failures = 0
        while True:
            try:
                return ask()
            except HTTPError as error:
                failures += 1
                if failures >= self._backoff.tries or not is_transient(error):
                    raise RemoteError(self._describe(error)) from None
                wait = self._backoff.wait(failures, jitter(failures))
            threading.Event().wait(wait)

    def _describe(self, error: HTTPError) -> str:
        url = self._http.url
        if error.status is None:
            return f"no server answers ({error}); does llm-gym serve run at {url}?"
        if error.status == 401:
            return f"{url} wants its token: put what it was started with into {self._token_env}"
        try:
            reason = str(json.loads(error.body)["error"])
        except (ValueError, TypeError, KeyError):
            return str(error)
        return f"{url} refuses it: {reason:.500}"


def _is_answer(answer: Any) -> bool:
    if isinstance(answer, list):
        return True
    known = isinstance(answer, dict) and answer.get("error") in protocol.ERRORS
    return known and isinstance(answer.get("message"), str)


def _read_about(about: Any) -> About:
    if about["protocol"] != protocol.PROTOCOL:
        raise ValueError(f"its protocol is {about['protocol']!r}, ours {protocol.PROTOCOL}")
    return About(
        _space(about["observation"]),
        _space(about["action"]),
        protocol.text(about["system_prompt"]),
        about["has_splits"] is True,
    )


def _space(space: Mapping[str, Any]) -> AnyText:
    longest = space["max_length"]
    if type(longest) is not int or not 0 < longest <= _MAX_LENGTH:
        raise TypeError(f"expected a whole number above 0, got {longest!r:.100}")
    return AnyText(longest, examples=[*map(protocol.text, space["examples"][:100])])

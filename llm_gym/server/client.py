"""Sends rows of ``protocol`` to a server, and again where an answer does not come."""

import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError, RemoteError
from llm_gym.core.spaces import AnyText
from llm_gym.evaluate.endpoint.http import Backoff, HTTPError, JsonHTTP, Key, is_transient, jitter
from llm_gym.server import protocol

_MAX_LENGTH = 1 << 30
_MAX_TEXT = 1 << 20


class About(NamedTuple):
    """What a server says about its environment."""

    observation_space: AnyText
    action_space: AnyText
    system_prompt: str
    has_splits: bool


class Connection:
    """A session at a server of environments; arguments as of ``RemoteEnv``."""

    def __init__(
        self,
        url: str,
        token_env: str = protocol.TOKEN_VARIABLE,
        timeout: float = 60.0,
        tries: int = 5,
    ) -> None:
        if not timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {timeout}")
        secret = os.environ.get(token_env, "").strip()
        key = Key(secret, token_env) if secret else None
        self._http = JsonHTTP(url, key.headers if key else None, key.hide if key else None)
        self._token_env = token_env
        self._leave()
        self._timeout, self._backoff = timeout, Backoff(tries, first_s=0.1, longest_s=5.0)
        try:
            self.about = self._ask_about()
        except BaseException:
            self.close()
            raise

    def play(self, operation: str, argument: Any) -> Any:
        """Do one operation and return its answer as in ``protocol``, an error included.

        A reset begins a session that the server has lost anew.
        """
        try:
            answer = self._run(operation, argument)
            is_lost = isinstance(answer, dict) and answer["error"] == protocol.LOST
            if is_lost and operation == protocol.RESET and self.number:
                self._leave()
                answer = self._run(operation, argument)
        except RemoteError:
            self._leave()  # nobody knows whether the server has played it
            raise
        if not (isinstance(answer, dict) and answer["error"] in protocol.NOT_PLAYED):
            self.number += 1
        return answer

    def _leave(self) -> None:
        """Go on in a new session, which the next reset begins."""
        self._name, self.number = secrets.token_urlsafe(16), 0

    def _run(self, operation: str, argument: Any) -> Any:
        """Return the answer; it is asked for again on failure, and yet played once."""
        body = {"rows": [(self._name, self.number + 1, operation, argument)]}
        told = self._try(lambda: self._http.post(protocol.ROWS, body, self._timeout))
        answers = told.get("rows") if isinstance(told, dict) else None
        if isinstance(answers, list) and len(answers) == 1 and _is_answer(answers[0]):
            return answers[0]
        raise RemoteError(f"{self._http.url} answered with something else than one row")

    def close(self) -> None:
        self._leave()
        self._http.close()

    def _ask_about(self) -> About:
        told = self._try(lambda: self._http.get(protocol.ABOUT, self._timeout))
        try:
            return _read_about(told)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise RemoteError(f"{self._http.url} is no llm-gym server: {error!s:.200}") from error

    def _try(self, ask: Callable[[], Any]) -> Any:
        failures = 0
        while True:
            try:
                return ask()
            except HTTPError as error:
                failures += 1
                if failures >= self._backoff.tries or not is_transient(error):
                    raise RemoteError(self._said(error)) from None
                wait = self._backoff.wait(failures, jitter(failures))
            threading.Event().wait(wait)

    def _said(self, error: HTTPError) -> str:
        url = self._http.url
        if error.status is None:
            return f"no server answers ({error}); does llm-gym serve run at {url}?"
        if error.status == 401:
            return f"{url} wants its token: put what it was started with into {self._token_env}"
        try:
            told = str(json.loads(error.body)["error"])
        except (ValueError, TypeError, KeyError):
            return str(error)
        return f"{url} refuses it: {told:.500}"


def _is_answer(answer: Any) -> bool:
    if isinstance(answer, list):
        return True
    known = isinstance(answer, dict) and answer.get("error") in protocol.ERRORS
    return known and isinstance(answer.get("message"), str)


def _read_about(told: Any) -> About:
    if told["protocol"] != protocol.PROTOCOL:
        raise ValueError(f"its protocol is {told['protocol']!r}, ours {protocol.PROTOCOL}")
    return About(
        _space(told["observation"]),
        _space(told["action"]),
        _text(told["system_prompt"]),
        told["has_splits"] is True,
    )


def _space(told: Mapping[str, Any]) -> AnyText:
    return AnyText(
        _whole(told["max_length"]), examples=[_text(one) for one in told["examples"][:100]]
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise TypeError(f"expected some text, got {value!r:.100}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value <= _MAX_LENGTH:
        raise TypeError(f"expected a whole number above 0, got {value!r:.100}")
    return value

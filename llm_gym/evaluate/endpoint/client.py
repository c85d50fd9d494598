"""``ChatClient``: asks a served model for replies, over an OpenAI-compatible API.

Read ``reply`` first: it sends a request, and retries if the server is busy or silent. A request
that can never succeed raises an error of one sentence.
"""

import json
import logging
import re
import threading
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.settings import check_range
from llm_gym.evaluate import REPLY_TOKENS, THOUGHT_TOKENS
from llm_gym.evaluate.endpoint import http
from llm_gym.evaluate.result import Evaluation


class Usage(NamedTuple):
    """Number of requests to a server and of their tokens."""

    requests: int = 0
    """Answered requests."""
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0
    """Replies without a token count from the server."""


@dataclass(frozen=True)
class ServedEvaluation(Evaluation):
    """How a served model played."""

    usage: Usage
    """Tokens of all requests, including episodes that did not end."""
    planned: int
    """Number of episodes requested."""

    def summary(self) -> dict[str, Any]:
        usage = self.usage._asdict()
        stopped = Counter(str(episode.stop_reason) for episode in self.episodes)
        stops = {"stop_reasons": dict(sorted(stopped.items()))}
        return {**super().summary(), "planned": self.planned, **stops, **usage}

    def notes(self) -> list[str]:
        notes = super().notes()
        if left := self.planned - len(self.episodes):
            notes.insert(
                0,
                f"{left} of {self.planned} episodes did not end; short ones end first, so the "
                "figures are no fair sample",
            )
        if self.usage.uncounted:
            notes.append(f"the server did not count the tokens of {self.usage.uncounted} replies")
        if self.usage.retries:
            notes.append(f"{self.usage.retries} requests had to be repeated")
        return notes


class EndpointError(LLMGymError, ConnectionError):
    """A model server refused a request or did not answer."""

    result: ServedEvaluation | None = None
    """Results of the episodes that ended before, if any."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed while episodes were played."""

    result: ServedEvaluation | None = None
    """Results of the episodes that ended before, if any."""


class ContextFullError(Exception):
    """A conversation is longer than the model's context."""


class StoppedError(Exception):
    """The client was stopped before the reply came."""


_log = logging.getLogger(__name__)
_CHAT = "/chat/completions"
# OpenAI and vLLM: "maximum context length", SGLang: "model's context length", llama.cpp: "context
# size", TGI: "inputs must have less than", Google: "token count exceeds"; as a code,
# "context_length_exceeded".
_CONTEXT = re.compile(
    r"context.?(length|size|window)|prompt is too long|token count.{0,40}exceeds"
    r"|inputs`? (must have less than|tokens \+)",
    re.IGNORECASE,
)
_SHOWN = 300
_LONGEST_FINISH = 100
_MOST_TOKENS = 10**9
_THOUGHT = re.compile(r"</?\w*think|\[THINK\]|◁think|<\|channel|^analysis", re.IGNORECASE)


class Reply(NamedTuple):
    """The model's reply, and its number of tokens."""

    text: str
    tokens_in: int | None
    """None if the server does not report it."""
    tokens_out: int | None
    finish: str
    thinks: bool = False
    """Whether the model wrote reasoning before the reply."""


class ChatClient:
    """Client of the model ``model`` served at ``url``; thread-safe.

    Args:
        url: URL of the API, such as ``http://127.0.0.1:8000/v1``; ``/v1`` is added if the URL has
            no path.
        model: Name of the served model.
        max_tokens: Maximum tokens of a reply. None is 64; if a reply is cut inside its reasoning,
            the limit becomes 1,024 and the request is repeated.
        temperature: 0 is greedy.
        top_p: Probability mass of nucleus sampling.
        body: More fields of a request, such as ``{"reasoning_effort": "low"}``; None removes a
            field: ``{"max_tokens": None, "max_completion_tokens": 500}``.
        key_env: The environment variable with the API key, instead of ``LLM_GYM_API_KEY``.
        timeout: Maximum seconds to wait for a reply.
        backoff: When to retry.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        body: Mapping[str, Any] | None = None,
        key_env: str | None = None,
        timeout: float = 600.0,
        backoff: http.Backoff | None = None,
    ) -> None:
        check_range("max_tokens", max_tokens, 1)
        check_range("temperature", temperature, 0)
        if not 0.0 < top_p <= 1.0:
            raise ConfigError(f"top_p must be above 0 and at most 1, got {top_p}")
        if not 0.0 < timeout < float("inf"):
            raise ConfigError(f"timeout must be above 0, got {timeout}")
        url = api_url(url)
        self._key = http.find_key(url, key_env)
        self.http = http.JsonHTTP(url, self._key)
        self.model, self.timeout, self.backoff = model, timeout, backoff or http.Backoff()
        self._may_grow = max_tokens is None and "max_tokens" not in (body or {})
        most = REPLY_TOKENS if max_tokens is None else max_tokens
        sampling = {"max_tokens": most, "temperature": temperature, "top_p": top_p}
        self._body = {"model": model, **sampling, **(body or {})}
        self._stopped = threading.Event()
        self._pause: Callable[[float], bool] = self._stopped.wait
        self._lock = threading.Lock()
        self.usage = Usage()

    def reply(self, messages: Sequence[Mapping[str, str]], seed: int = 0) -> Reply:
        """Return the model's next reply.

        Raises ``ContextFullError`` if the conversation is too long, ``EndpointError`` if the server
        refuses or does not answer, and ``StoppedError`` after ``stop``.
        """
        request = {"messages": list(messages), "seed": seed, **self._body}
        request = {name: value for name, value in request.items() if value is not None}
        reply = self._ask(request)
        in_thought = reply.finish == "length" and (reply.thinks or not reply.text)
        if not self._may_grow or not in_thought or request["max_tokens"] == THOUGHT_TOKENS:
            return reply
        self._body["max_tokens"] = THOUGHT_TOKENS
        return self._ask(request | {"max_tokens": THOUGHT_TOKENS})

    def _ask(self, request: Mapping[str, Any]) -> Reply:
        seed: int = request.get("seed", 0)
        for failures in range(1, self.backoff.tries + 1):
            if self._stopped.is_set():
                raise StoppedError
            try:
                reply = read_reply(self.http.post(_CHAT, request, self.timeout), self.http.hide)
            except http.HTTPError as error:
                last = error
                if self._stopped.is_set():
                    raise StoppedError from None
                if not http.is_transient(error):
                    raise self._refusal(error) from None
            else:
                self._count(reply)
                return reply
            if failures < self.backoff.tries:
                at_least = http.retry_after(last.headers)
                wait = self.backoff.wait(failures, http.jitter(seed, failures), at_least)
                self._note_retry(last, wait)
                if self._pause(wait):
                    raise StoppedError
        tries = f"{failures} tries" if failures > 1 else "one try"
        raise EndpointError(f"no answer in {tries}, the last time: {self.http.hide(str(last))}")

    def stop(self) -> None:
        """End every request; waiting calls raise ``StoppedError``."""
        self._stopped.set()
        self.http.close()

    def _count(self, reply: Reply) -> None:
        with self._lock:
            was = self.usage
            self.usage = was._replace(
                requests=was.requests + 1,
                tokens_in=was.tokens_in + (reply.tokens_in or 0),
                tokens_out=was.tokens_out + (reply.tokens_out or 0),
                uncounted=was.uncounted + (reply.tokens_out is None),
            )

    def _note_retry(self, error: http.HTTPError, wait: float) -> None:
        with self._lock:
            first = self.usage.retries == 0
            self.usage = self.usage._replace(retries=self.usage.retries + 1)
        # One warning is enough: when a server is busy, every conversation has to wait.
        level = logging.WARNING if first else logging.DEBUG
        _log.log(level, "%s; asking again in %.1f s, and silently from now on", error, wait)

    def _refusal(self, error: http.HTTPError) -> Exception:
        """Return the exception for an error that a retry cannot fix."""
        what = _message(error.body, self.http.hide)
        if error.status in (400, 413, 422) and _CONTEXT.search(error.body):
            return ContextFullError(what)
        at = f"{self.http.url} answered {error.status}"
        if error.status in (401, 403):
            # Not what it says: many servers repeat a part of the key.
            if self._key:
                return EndpointError(f"{at}: it does not accept {self._key!r}")
            return EndpointError(
                f"{at}: it wants a key; set {http.KEY_VARIABLE}, or name another variable with "
                "--key-env (in Python key_env)"
            )
        if error.status == 404:
            return EndpointError(f"{at}: it has no model {self.model!r}, or no API there: {what}")
        if error.status is not None and 300 <= error.status < 400:
            return EndpointError(f"{at}: it has moved; give the url that it moved to")
        return EndpointError(f"{at}: {what}")


def api_url(url: str) -> str:
    """Return the URL of the API from the forms that users write after ``--endpoint``.

    >>> api_url("http://localhost:8000"), api_url("https://api.org/v1/chat/completions")
    ('http://localhost:8000/v1', 'https://api.org/v1')
    """
    parts = http.split_url(url)
    path = parts.path.rstrip("/").removesuffix(_CHAT)
    return urllib.parse.urlunsplit(parts._replace(path=path or "/v1"))


def read_reply(answer: Any, hide: Callable[[str], str] = str) -> Reply:
    """Return the reply in a response of the API; ``reasoning_content`` is left out.

    >>> message = {"reasoning_content": "Hm.", "content": " go north "}
    >>> usage = {"prompt_tokens": 9, "completion_tokens": 2}
    >>> read_reply({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
    Reply(text='go north', tokens_in=9, tokens_out=2, finish='stop', thinks=True)
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content = message.get("content")
        if isinstance(content, list):  # of parts, of which some are text
            content = "".join(part.get("text") or "" for part in content)
        text = "" if content is None else str(content)
        usage = answer.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        finish = choice.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError):
        shown = hide(_as_text(answer))[:_SHOWN]
        raise http.HTTPError(f"the answer holds no reply: {shown}") from None
    tokens_in, tokens_out = map(_token_count, counts)
    end = hide(finish)[:_LONGEST_FINISH] if isinstance(finish, str) else str(None)
    thinks = bool(message.get("reasoning_content") or message.get("reasoning"))
    thinks = thinks or _THOUGHT.search(text) is not None
    return Reply(hide(text).strip(), tokens_in, tokens_out, end, thinks)


def _token_count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _MOST_TOKENS else None


def _as_text(value: Any) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or thousands of digits
        return type(value).__name__


def _message(body: str, hide: Callable[[str], str]) -> str:
    """Return the message in an error response."""
    try:
        found = json.loads(body)
        found = found.get("error") or found.get("message") or found.get("detail") or found
        found = found.get("message") or found if isinstance(found, dict) else found
    except (ValueError, RecursionError, AttributeError):
        found = body
    return " ".join(hide(_as_text(found)).split())[:_SHOWN] or "and nothing else"

"""The protocol between ``llm-gym serve`` and ``llm_gym/Remote-v0``: rows of JSON.

A request holds any number of rows ``[session, number, operation, argument]``; the response has one
answer for each row. ``session`` is a random name that the client chooses; an unknown name begins a
new session. ``number`` counts the operations of a session from 1. If an answer was lost, the client
sends the row again, and the server repeats the answer without playing the operation again. An
answer is a list, whose form depends on the operation, or an object with ``error`` (one of
``ERRORS``) and ``message``. ``llm_gym.episodes.encoding`` writes infos and numbers.
"""

from contextlib import suppress
from typing import Any

from llm_gym.core.outcome import StopReason
from llm_gym.episodes.encoding import decode

PROTOCOL = 1
ROWS, ABOUT = "/v1/rows", "/v1/about"
TOKEN_VARIABLE = "LLM_GYM_SERVE_TOKEN"

RESET = "reset"
"""Argument ``[seed, options]``, answer ``[observation, info, instance_id, system_prompt]``."""
STEP = "step"
"""Argument the action, answer ``[observation, reward, terminated, truncated, info]``."""
CALL = "call"
"""Argument one of ``CALLS``, answer ``[value]``."""
CLOSE = "close"
"""Answer ``[]``, even if there is no such session."""
OPERATIONS = (RESET, STEP, CALL, CLOSE)

PLAYERS = ("oracle", "solver", "random")
VALUE = "oracle_value"
CALLS = {f"{player}_action": player for player in PLAYERS} | {
    VALUE: "oracle",
    "legal_actions": "random",
    "action_pattern": "random",
}
"""Methods that a client may call, each with the player that the server must allow."""

LOST, BUSY, ORDER, FULL = "lost", "busy", "order", "full"
REFUSED, FAILED, TIMEOUT = "refused", "failed", "timeout"
ERRORS = (LOST, BUSY, ORDER, FULL, REFUSED, FAILED, TIMEOUT)
"""In this order: no such session, session still busy, number not the next one, too many sessions;
the environment refuses its input, raises, or takes too long. After one of the first four, the
operation has not taken place and its number is free."""
NOT_PLAYED = frozenset({LOST, BUSY, ORDER, FULL})


def error(kind: str, message: str) -> dict[str, str]:
    """Return the answer of a row that failed."""
    return {"error": kind, "message": message[:2000]}


def unpack_info(info: Any) -> dict[str, Any]:
    """Return the info that ``encode`` was given, as far as JSON preserves types.

    >>> unpack_info({"stop_reason": "won"})
    {'stop_reason': <StopReason.WON: 'won'>}
    """
    info = decode(info)
    if not isinstance(info, dict):
        raise TypeError("info must be an object")
    with suppress(KeyError, ValueError):
        info["stop_reason"] = StopReason(info["stop_reason"])
    return info


def unpack_number(number: Any) -> float:
    """Return the number that ``encode`` was given."""
    number = decode(number)
    if type(number) not in (int, float):
        raise TypeError(f"expected a number, got {number!r:.80}")
    return float(number)


def text(value: Any) -> str:
    """Return ``value``, which must be text."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r:.80}")
    return value


def texts(value: Any) -> str | list[str] | None:
    """Return ``value``, which must be a valid answer of a call: a text, several, or None."""
    if isinstance(value, list | tuple):
        return [text(one) for one in value]
    return value if value is None else text(value)

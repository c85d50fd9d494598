"""What a move did, and why an episode stopped."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gymnasium.error import ResetNeeded

from llm_gym.core.errors import ActionTypeError
from llm_gym.core.infos import flag


class StopReason(StrEnum):
    """Why an episode stopped. A member is a plain ``str``, so it is JSON and pickle safe."""

    PLAYING = "playing"
    """The episode goes on."""
    WON = "won"
    LOST = "lost"
    DRAWN = "drawn"
    FINISHED = "finished"
    """The rules ended it, and there was nothing to win or lose."""
    INVALID = "invalid"
    """Terminated by an unusable reply, or by too many."""
    MAX_STEPS = "max_steps"
    """Truncated by a turn limit that is not part of the rules."""
    TOKENS = "tokens"
    """Truncated by a token budget."""
    CONTEXT = "context"
    """Truncated because the conversation outgrew the model's context."""
    ERROR = "error"
    """Truncated because the environment raised, hung or died."""


_ENDS = frozenset(StopReason) - {StopReason.PLAYING}
TERMINAL = frozenset(
    {StopReason.WON, StopReason.LOST, StopReason.DRAWN, StopReason.FINISHED, StopReason.INVALID}
)


def stop_reason(terminated: bool, truncated: bool, info: Mapping[str, Any]) -> StopReason:
    """Return why a step ended its episode, for any Gymnasium environment.

    Many environments give no ``stop_reason``, and ``gymnasium.wrappers.TimeLimit`` sets
    ``truncated`` without adding one to ``info``.

    >>> stop_reason(False, True, {"stop_reason": "playing"})
    <StopReason.MAX_STEPS: 'max_steps'>
    >>> stop_reason(True, False, {"success": True})
    <StopReason.WON: 'won'>
    """
    if not (terminated or truncated):
        return StopReason.PLAYING
    given = info.get("stop_reason")
    if isinstance(given, str) and given in _ENDS:
        return StopReason(given)
    if truncated and not terminated:
        return StopReason.MAX_STEPS
    won = flag(info, "success")
    if won is None:
        return StopReason.FINISHED
    return StopReason.WON if won else StopReason.LOST


def refuse_step(name: str, action: object, stop: object) -> Exception:
    """Return the error for an ``action`` that is not a string or that comes without an episode."""
    if not isinstance(action, str):
        return ActionTypeError(
            f"{name} takes a str action, got {type(action).__name__}; decode token ids before "
            "calling step"
        )
    why = "has not begun" if stop is None else f"is over ({stop})"
    return ResetNeeded(f"the episode {why}; call reset() first")


_PLAYING, _WON, _LOST = StopReason.PLAYING, StopReason.WON, StopReason.LOST  # faster to reach


# A plain tuple is made and taken apart four times faster than a named one, at every move.
Outcome = tuple[str, bool, StopReason, float]
"""What ``Game.apply`` returns: feedback for the player, shown before the description of the new
state; False when the move could not be used and changed nothing; why the game stopped, if it did;
the reward. Build it with ``go_on``, ``win``, ``lose``, ``end`` or ``reject``.
"""


def go_on(text: str = "", reward: float = 0.0) -> Outcome:
    """Return the outcome of a move after which the game goes on."""
    return text, True, _PLAYING, reward


def win(text: str, reward: float = 1.0) -> Outcome:
    """Return the outcome of the winning move."""
    return text, True, _WON, reward


def lose(text: str) -> Outcome:
    """Return the outcome of a move that loses the game: reward 0."""
    return text, True, _LOST, 0.0


def end(text: str, stop: StopReason, reward: float = 0.0) -> Outcome:
    """Return the outcome of a move that ends the game some other way: drawn, or finished."""
    return text, True, stop, reward


def reject(text: str) -> Outcome:
    """Return the outcome of a move that cannot be used; ``text`` says why."""
    return text, False, _PLAYING, 0.0

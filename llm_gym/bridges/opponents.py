"""Who plays the other seats of a game for several.

An opponent is a function from all it has been shown, as one text, to its reply: an agent of
TextArena's is one as it is.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from llm_gym.errors import ConfigError, LLMGymError, WorkerError

Opponent = Callable[[str], str]
Given = str | Mapping[str, Any] | Opponent
_BRACKETS = re.compile(r"\[[^\[\]\n]{1,40}\]")
_SPEAKERS = re.compile(r"\[(?:GAME|Player[^\]]*|[A-Z][A-Z ]+)\]")


def bracketed(text: str) -> list[str]:
    r"""Return the moves in square brackets on the last line that has some, as TextArena lists them.

    >>> bracketed("[GAME] Write '[4]' for the middle.\nAvailable Moves: '[0]', '[8]'")
    ['[0]', '[8]']
    """
    for line in reversed(text.splitlines()):
        if found := [move for move in _BRACKETS.findall(line) if not _SPEAKERS.fullmatch(move)]:
            return found
    return []


def random_reply(text: str, rng: np.random.Generator) -> str:
    """Return one of the moves that ``text`` names, at random, or a number where it names none."""
    moves = bracketed(text) or [f"[{number}]" for number in range(10)]
    return moves[int(rng.integers(len(moves)))]


class RandomOpponent:
    """Plays one of the moves that it was last shown, at random."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        """Begin anew, so that an episode follows from its seed."""
        self.rng = np.random.default_rng(seed)

    def __call__(self, text: str) -> str:
        return random_reply(text, self.rng)


class ServedOpponent:
    """A model behind an OpenAI-compatible API, as ``llm_gym.endpoint`` talks to it."""

    def __init__(self, **settings: Any) -> None:
        from llm_gym.endpoint.client import ChatClient

        try:
            self.client = ChatClient(**settings)
        except TypeError as error:
            raise ConfigError(f"opponent must have url and model: {error}") from error

    def __call__(self, text: str) -> str:
        return self.client.reply([{"role": "user", "content": text}]).text


def ask(opponent: Opponent, text: str) -> str:
    """Return what an opponent replies; one that fails ends the episode, and is nobody's move."""
    try:
        reply = opponent(text)
    except LLMGymError:
        raise
    except Exception as error:
        raise WorkerError(f"the opponent raised {type(error).__name__}: {error}") from error
    if not isinstance(reply, str):
        raise WorkerError(f"the opponent must reply with a str, got {type(reply).__name__}")
    return reply


def make_opponent(given: Given) -> Opponent:
    """Return the opponent that a setting stands for.

    ``random``; ``module:function``, which may be a class to be called without arguments; a
    dictionary with ``url`` and ``model`` and whatever else ``ChatClient`` takes; or a function.
    """
    if given == "random":
        return RandomOpponent()
    if isinstance(given, Mapping):
        return ServedOpponent(**given)
    if callable(given):
        return given
    module, colon, name = given.partition(":")
    try:
        found = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the opponent {given!r} cannot be imported: {error}") from error
    found = found() if isinstance(found, type) else found
    if not callable(found):
        raise ConfigError(
            "opponent must be 'random', 'module:function', a dictionary with url and model, or a "
            f"function from text to text, got {given!r}"
        )
    return found  # type: ignore[no-any-return]

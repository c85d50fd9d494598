"""What a reader of actions is.

A reader knows one action space: it reads an action from what a model wrote, and writes one. It is
linear in the length of the text, and refuses what it cannot use with ``Unusable``, whose
sentence is for the player. ``readers.make_reader`` finds the reader of a space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FEW = 256
"""A space with more actions than this is not listed action by action."""


class Unusable(ValueError):
    """A text that means no action; the message tells the player why."""


class Reader(ABC):
    """Reads and writes the actions of one space."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return the action that ``text`` means; raise ``Unusable`` if it means none."""

    @abstractmethod
    def write(self, action: Any) -> str:
        """Return the text that ``read`` reads as ``action``."""

    @abstractmethod
    def from_json(self, data: Any) -> Any:
        """Return the action that a JSON value means; raise ``Unusable`` if it means none."""

    @abstractmethod
    def to_json(self, action: Any) -> Any:
        """Return ``action`` as a JSON value."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """Return a random action."""

    @abstractmethod
    def how(self) -> str:
        """Return how an action is written, as words that follow "Your move is"."""

    @abstractmethod
    def pattern(self) -> str:
        """Return a regex that every text of ``write`` matches in full."""

    @abstractmethod
    def json_pattern(self) -> str:
        """Return a regex that ``to_json`` matches when it is written as JSON."""

    def moves(self) -> Sequence[str] | None:
        """Return every action as text, or None where they are too many."""
        return None

    def aliases(self) -> Mapping[str, str]:
        """Return other words for moves, each with the move as ``write`` writes it."""
        return {}

    def allowed(self, mask: Any) -> Sequence[str] | None:
        """Return the actions that an action mask allows, or None where it cannot be read."""
        return None

    def fallback(self) -> Any:
        """Return the action that does as little as possible, or None where none is known."""
        return None

    def examples(self) -> Sequence[str]:
        """Return a few actions as text."""
        moves, rng = self.moves(), np.random.default_rng(0)
        return moves[:16] if moves else [self.write(self.draw(rng)) for _ in range(4)]

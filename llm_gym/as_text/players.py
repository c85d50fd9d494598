"""What a player may ask an environment in text: the legal actions, a pattern, some advice.

The same questions as ``llm_gym.core.env`` answers for the environments of the suite,
answered by the phrasebook.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.core.formats import ActionFormat

_ESCAPED = r'(?:[^"\\\n]|\\.){1,2000}'


class TextPlayers:
    """Random player, oracle and legal actions of an environment in text."""

    book: Phrasebook
    _format: ActionFormat
    _last_info: dict[str, Any]
    _player_seed: int | None
    _player_rng: np.random.Generator | None

    def legal_actions(self) -> list[str] | None:
        """Return every usable action in this state, or None where there are too many."""
        moves = self.book.legal_moves(self._last_info)
        return None if moves is None else [self._format.render(move) for move in moves]

    def action_pattern(self) -> str:
        """Return a regex that usable actions match in full, for constrained decoding."""
        moves = self.book.legal_moves(self._last_info)
        if moves is not None:
            return self._format.pattern(moves)
        pattern = self.book.move_pattern() or r"[^\n]{1,200}"
        if '"' in pattern and self._format.escape('"') != '"':
            pattern = _ESCAPED  # quotes within quotes: any string that JSON allows
        return self._format.pattern(pattern)

    def random_action(self) -> str:
        """Return a random usable action, drawn from a generator that ``reset`` seeds."""
        if self._player_rng is None:
            entropy = None if self._player_seed is None else (self._player_seed, 1)
            self._player_rng = np.random.default_rng(entropy)
        return self._format.render(self.book.random_move(self._last_info, self._player_rng))

    def oracle_action(self) -> str:
        """Return the action of a best player who sees everything, where there is one."""
        return self._format.render(self.book.oracle_move())

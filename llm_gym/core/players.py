"""The players that every environment brings along, and forking an episode.

All of them answer with *actions*, written in the environment's own format, so that
``env.step(env.oracle_action())`` works under every format.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_gym.core.game import Game

if TYPE_CHECKING:
    from llm_gym.core.formats import ActionFormat


class Players(Game):
    """Oracle, solver and random player, legal actions, and snapshots of an episode."""

    _base_format: ActionFormat
    _base_observations: list[str]
    _base_moves: list[str]
    _base_player_seed: int | None
    _base_player_rng: np.random.Generator | None
    _base_not_state = frozenset(
        {
            "spec",
            "observation_space",
            "action_space",
            "render_mode",
            "_base_format",
            "_base_parse",
            "_base_bare",
        }
    )
    """Attributes that belong to the environment object rather than to the episode."""

    def oracle_action(self) -> str:
        """Return the action of a best player who sees everything."""
        return self._base_format.render(self.oracle_move())

    def solver_action(self) -> str:
        """Return the action of a good player who has read only this episode's observations."""
        return self._base_format.render(self.solve(self._base_observations, self._base_moves))

    def random_action(self) -> str:
        """Return a random usable action.

        It has a generator of its own, seeded by ``reset``, so asking for it never changes what
        the environment does next.
        """
        if self._base_player_rng is None:
            entropy = None if self._base_player_seed is None else (self._base_player_seed, 1)
            self._base_player_rng = np.random.default_rng(entropy)
        return self._base_format.render(self.random_move(self._base_player_rng))

    def legal_actions(self) -> list[str] | None:
        """Return every usable action in this state, or None where there are too many."""
        moves = self.legal_moves()
        return None if moves is None else [self._base_format.render(move) for move in moves]

    def action_pattern(self) -> str:
        """Return a regex that usable actions match in full, for constrained decoding."""
        moves = self.legal_moves()
        if moves is not None:
            return self._base_format.pattern(moves)
        return self._base_format.pattern(self.move_pattern() or r"[^\n]{1,200}")

    def snapshot(self) -> bytes:
        """Return the episode as it stands, to be given to ``restore`` any number of times.

        The bytes are a pickle: restore only what you trust.
        """
        return pickle.dumps(self._base_state(), protocol=pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go back to ``snapshot``, in this environment or another one built alike."""
        state: dict[str, Any] = pickle.loads(snapshot)
        for name in self._base_state().keys() - state.keys():
            delattr(self, name)
        for name, value in state.items():
            setattr(self, name, value)

    def _base_state(self) -> dict[str, Any]:
        own: tuple[dict[str, Any], ...] = self.__getstate__()  # type: ignore[assignment]
        return {
            name: value
            for attributes in own  # outside slots, and in slots
            for name, value in attributes.items()
            if name not in self._base_not_state
        }

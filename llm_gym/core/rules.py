"""What a player is told beside the state: the rules, how to write a move, and the screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from llm_gym.core.difficulty import Knobs

if TYPE_CHECKING:
    from llm_gym.core.formats import ActionFormat


class RulesTelling(Knobs):
    """The text of an environment that is not the game's own."""

    rules: Literal["observation", "system"]
    invalid: Literal["feedback", "terminate"]
    penalty: float
    retries: int
    render_mode: str | None
    _base_format: ActionFormat
    _base_screen: str
    _base_turn: int

    @property
    def system_prompt(self) -> str:
        """The rules when ``rules="system"``, else empty: they are told once, in one place."""
        return self._base_rules() if self.rules == "system" else ""

    @property
    def turns_left(self) -> int:
        """Turns left of ``max_turns``."""
        return (self.max_turns or 0) - self._base_turn

    def _base_rules(self) -> str:
        if self._base_rules_cache is None:
            self._base_rules_cache = self._base_write_rules()
        return self._base_rules_cache

    def _base_write_rules(self) -> str:
        parts = [self.rules_text()]
        if self.max_turns is not None:
            parts.append(f"You have {self.max_turns} turn{'s' * (self.max_turns != 1)}.")
        if self.retries:
            parts.append(f"Up to {self.retries} unusable replies per turn are forgiven.")
        parts.append(
            "An unusable reply costs a turn."
            if self.invalid == "feedback"
            else "An unusable reply ends the game."
        )
        if self.penalty:
            parts.append(f"Each unusable reply costs {self.penalty:g} points.")
        return f"{' '.join(parts)}\n{self._base_how()}".rstrip("\n")

    def _base_how(self) -> str:
        return self._base_format.tell(self.example_moves()[0], self.move_name)

    def _base_draw_screen(self, action: str, text: str) -> None:
        self._base_screen = f"> {action}\n{text}" if action else text
        if self.render_mode == "human":
            # A lone surrogate in a model's text cannot be encoded for a terminal.
            sys.stdout.write(self._base_screen.encode("utf-8", "replace").decode() + "\n")

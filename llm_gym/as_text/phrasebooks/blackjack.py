"""Words for Gymnasium's Blackjack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_gym.as_text.phrasebooks.book import Phrasebook


class BlackjackWords(Phrasebook):
    """The player's points and the dealer's open card."""

    names = ("stick", "hit")
    aliases = {"stand": 0, "stay": 0, "draw": 1, "hit me": 1, "card": 1}

    def rules_text(self) -> str:
        told = [
            "You play blackjack against the dealer. Whoever is closer to 21 wins; above 21 you are "
            "bust and lose. Face cards count 10. An ace counts 11 while that keeps you at 21 or "
            "below (a usable ace), else 1. hit draws a card, stick ends your turn; then the dealer "
            "draws up to 17 or more. A win earns 1 point, a loss costs 1, a draw earns nothing.",
        ]
        if getattr(self.game, "sab", False):
            told.append("With an ace and a ten you win, unless the dealer has them too.")
        elif getattr(self.game, "natural", False):
            told.append("Winning with an ace and a ten earns 1.5.")
        return " ".join([*told, self.limit_text()]).strip()

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        points, card, ace = observation
        shown = "an ace" if int(card) == 1 else f"a {int(card)}"
        held = "with" if ace else "without"
        return f"You have {int(points)} points {held} a usable ace. The dealer shows {shown}."

    def ending(self, reward: float) -> str:
        if reward == 0.0:
            return "It is a draw."
        return "You win." if reward > 0.0 else "You lose."

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return None if terminated and reward == 0.0 else reward > 0.0  # a draw is neither

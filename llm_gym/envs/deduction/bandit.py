"""Find out which of several buttons pays most often."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, lose, reject, setting, win

COLOURS = (
    *("red", "blue", "green", "yellow", "purple"),
    *("orange", "pink", "brown", "gray", "black"),
)
_ARMS = {colour: arm for arm, colour in enumerate(COLOURS)} | {"grey": COLOURS.index("gray")}
_ARMS |= {f"press {colour}": arm for colour, arm in _ARMS.items()}
_MOST_TURNS = 10_000  # the payouts of all turns are drawn at the start
_LOWEST = 0.1  # chance of the worst button
_EXPLORE = 0.6  # weight of the exploration bonus; the best of those tried on the presets
_PRESSED = re.compile(r"You press (\w+): it pays ([01])\.")
_BUTTONS = re.compile(r"There are (\d+) buttons")
_LEFT = re.compile(r"Turns left: (\d+)\.")
_LAST = "Turns left: 1. Now name the best button."
_PAYS = [[go_on(f"You press {name}: it pays {paid}.") for paid in (0, 1)] for name in COLOURS]


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_button(move: str) -> int | None:
    """Return the index of the named colour in ``COLOURS``, or None if it is none of them.

    >>> parse_button("Red"), parse_button("[blue]"), parse_button("press grey"), parse_button("1")
    (0, 1, 8, None)
    """
    return _ARMS.get(move.strip("[] ").lower())


class BanditEnv(TextEnv):
    """Find out which of several buttons pays most often.

    Description:
        Every button pays 1 with its own probability and otherwise 0. The best button has the
        probability 0.5 + ``gap`` / 2; those of the others are drawn uniformly between 0.1 and
        0.5 - ``gap`` / 2. In all turns but the last, the player tries buttons; the button named
        in the last turn is the answer.

    Actions:
        The colour of a button, such as ``red`` or ``press red``.

    Observations:
        The payout of the last press, how often each button has paid so far (with ``summary``),
        and the turns left.

    Rewards:
        1 for naming the best button in the last turn, otherwise 0. The payouts are information,
        not reward.

    Episode end:
        Terminates with the last of ``max_turns`` turns: won if it names the best button, else
        lost.

    Args:
        arms: Buttons, 2 to 10.
        gap: Smallest difference between the probabilities of the best button and of any other,
            above 0 and at most 0.8.
        summary: Whether every observation counts all presses so far; otherwise the player has
            to remember them.
        max_turns: Turns, the last one for the answer; at least one for each button and one more.
        **common: See ``TextEnv``.
    """

    is_markov = True
    has_splits = False  # there are as many answers as buttons

    arms: int = setting(5, 2, len(COLOURS))
    gap: float = setting(0.1)
    summary: bool = setting(True)
    max_turns: int = setting(20)

    def check_settings(self) -> None:
        if not 0.0 < self.gap <= 0.8:
            raise ConfigError(f"gap must be above 0 and at most 0.8, got {self.gap}")
        why = "one for each button and one for the answer"
        self.check_range("max_turns", self.arms + 1, _MOST_TURNS, why)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        arms = round(2 + 8 * difficulty)
        return {"arms": arms, "gap": 0.5 - 0.45 * difficulty, "max_turns": 4 * arms + 4}

    def new_game(self, rng: np.random.Generator) -> None:
        draws = rng.random(self.arms + self.max_turns).tolist()
        self._set_chances(draws[: self.arms + 1])
        self._luck = draws[: self.arms : -1]  # the next draw last
        self._paid, self._tries = [0] * self.arms, [0] * self.arms
        self._counts = [f"{colour} 0 of 0" for colour in COLOURS[: self.arms]]

    def _set_chances(self, draws: list[float]) -> None:
        span = 0.5 - self.gap / 2 - _LOWEST
        self._best = int(draws.pop() * self.arms)
        self._chances = [_LOWEST + span * draw for draw in draws]
        self._chances[self._best] = 0.5 + self.gap / 2

    def rules_text(self) -> str:
        return (
            f"There are {self.arms} buttons: {', '.join(COLOURS[: self.arms])}. When pressed, each "
            "pays 1 with a fixed chance of its own that you do not know, and otherwise 0. One "
            f"button pays best: its chance is at least {self.gap:g} above that of any other. Find "
            f"out which. Your move is a colour. In each of your first {self.max_turns - 1} "
            "turns, press a button. The "
            "button that you name in your last turn is your answer: you win if it is the best one."
        )

    def example_moves(self) -> Sequence[str]:
        return COLOURS[: self.arms]

    def describe(self) -> str:
        text = _LAST if self.turns_left == 1 else f"Turns left: {self.turns_left}."
        return f"Paid so far: {', '.join(self._counts)}. {text}" if self.summary else text

    def apply(self, move: str) -> Outcome:
        arm = parse_button(move)
        if arm is None or arm >= self.arms:
            return reject(f"Your move must be one of {', '.join(COLOURS[: self.arms])}.")
        if self.turns_left == 1:
            if arm == self._best:
                return win(f"Yes, {COLOURS[arm]} is the best button.")
            return lose(f"No, {COLOURS[arm]} is not the best button. {self.reveal()}")
        pays: bool = self._luck.pop() < self._chances[arm]
        self._tries[arm] += 1
        if pays:
            self._paid[arm] += 1
        if self.summary:
            self._counts[arm] = f"{COLOURS[arm]} {self._paid[arm]} of {self._tries[arm]}"
        return _PAYS[arm][pays]

    def reveal(self) -> str:
        return f"The best button was {COLOURS[self._best]}."

    def instance(self) -> object:
        return self._chances

    def swap_secret(self, rng: np.random.Generator) -> bool:
        # No payouts so far rule out any probabilities.
        self._set_chances(rng.random(self.arms + 1).tolist())
        return True

    legal_moves = example_moves

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Press the buttons one after the other; name the one that has paid most often."""
        shares = [paid / max(tries, 1) for paid, tries in zip(self._paid, self._tries, strict=True)]
        if self.turns_left == 1:
            return COLOURS[shares.index(max(shares))]
        return COLOURS[self._tries.index(min(self._tries))]

    def oracle_move(self) -> str:
        return COLOURS[self._best]

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Press the button with the highest upper confidence bound; name the best one so far."""
        arms, left = _BUTTONS.findall(observations[0])[0], _LEFT.findall(observations[-1])[0]
        paid, tries = [0] * int(arms), [0] * int(arms)
        for text in observations[1:]:
            if pressed := _PRESSED.match(text):
                paid[_ARMS[pressed[1]]] += int(pressed[2])
                tries[_ARMS[pressed[1]]] += 1
        bonus = 0.0 if left == "1" else _EXPLORE

        def merit(arm: int) -> float:
            mean = (paid[arm] + 0.5) / (tries[arm] + 1)
            return mean + bonus / math.sqrt(tries[arm] + 0.01)

        return COLOURS[max(range(len(paid)), key=merit)]

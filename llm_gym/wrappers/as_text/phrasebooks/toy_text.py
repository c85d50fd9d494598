"""Phrasebooks of Gymnasium's FrozenLake, CliffWalking, Taxi and Blackjack."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.blackjack import sum_hand, usable_ace

from llm_gym.wrappers.as_text.phrasebooks.book import Phrasebook

COMPASS = {"up": "north", "right": "east", "down": "south", "left": "west"}


def directions(names: Sequence[str]) -> dict[str, int]:
    """Return further words for the directions ``names``, numbered in their order.

    >>> directions(["left", "down"])["go west"]
    0
    """
    words: dict[str, int] = {}
    for number, name in enumerate(names):
        for word in (name, COMPASS[name]):
            for verb in ("", "go ", "move ", "walk "):
                words[verb + word] = number
    return words


def slip_chance(transitions: Mapping[int, Mapping[int, Sequence[Any]]]) -> float:
    """Return the chance that a move does not go where it was meant to go.

    Gymnasium's slippery grids list three outcomes per move, the one meant in the middle.

    >>> slip_chance({0: {0: [(1.0, 0, 0, False)]}})
    0.0
    """
    for moves in transitions.values():
        for outcomes in moves.values():
            if len(outcomes) == 3:
                return 1.0 - float(outcomes[1][0])
    return 0.0


def slip_text(chance: float) -> str:
    """Return what the player is told about a slippery ground."""
    if not chance:
        return ""
    return (
        f"With probability {chance:.3g} you slip to one of the two sides of your direction instead."
    )


def draw(rows: Sequence[str], at: int, player: str = "P") -> str:
    r"""Return the map with the player on it.

    >>> draw(["..", ".G"], 1)
    '. P\n. G'
    """
    width = len(rows[0])
    cells = "".join(rows)
    cells = cells[:at] + player + cells[at + 1 :]
    return "\n".join(" ".join(cells[i : i + width]) for i in range(0, len(cells), width))


class FrozenLakeWords(Phrasebook):
    """The lake as a map; P is the player, a dot is ice, H is a hole and G is the goal."""

    names = ("left", "down", "right", "up")
    aliases = directions(names)

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        rows = [b"".join(row).decode() for row in self.game.desc.tolist()]
        self._cells = "".join(rows).replace("S", ".").replace("F", ".")
        lake = [row.replace("S", ".").replace("F", ".") for row in rows]
        # One picture per place: the lake never changes, and every step shows one.
        self._pictures = [draw(lake, at) for at in range(len(self._cells))]

    def rules_text(self) -> str:
        told = [
            "Cross the frozen lake to the goal. On the map, P is you, a dot is ice, H is a hole "
            "and G is the goal. Move up, down, left or right; at the edge you stay where you are.",
            slip_text(slip_chance(self.game.P)),
            "If you fall into a hole, you lose.",
            self.limit_text(),
        ]
        return " ".join(filter(None, told))

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return self._pictures[int(observation)]

    def ending(self, reward: float) -> str:
        there = self._cells[int(self.game.s)]
        return {"G": "You reach the goal.", "H": "You fall into a hole."}.get(
            there, super().ending(reward)
        )

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated and self._cells[int(self.game.s)] == "G"


class CliffWalkingWords(Phrasebook):
    """The ground as a map; P is the player, C is the cliff and G is the goal."""

    names = ("up", "right", "down", "left")
    aliases = directions(names)
    end_text = "You reach the goal."
    end_is_success = True

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        cliff = np.asarray(self.game._cliff)
        ground = [["C" if cell else "." for cell in row] for row in cliff.tolist()]
        ground[-1][-1] = "G"
        rows = ["".join(row) for row in ground]
        self._pictures = [draw(rows, at) for at in range(cliff.size)]

    def rules_text(self) -> str:
        told = [
            "Walk along the cliff to the goal. On the map, P is you, a dot is safe ground, C is "
            "the cliff and G is the goal. Move up, down, left or right; at the edge you stay where "
            "you are. Every move costs 1 point; a step into the cliff costs 100 and takes you back "
            "to the start, which is the bottom left corner.",
            slip_text(slip_chance(self.game.P)),
            self.limit_text(),
        ]
        return " ".join(filter(None, told))

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return self._pictures[int(observation)]


_IN_TAXI = 4
_STOPS = "RGYB"


class TaxiWords(Phrasebook):
    """The town as a map; T is the taxi, R, G, Y and B are the stops."""

    mask_advises = True
    names = ("south", "north", "east", "west", "pick up", "drop off")
    aliases = {
        "down": 0, "up": 1, "right": 2, "left": 3, "pickup": 4, "dropoff": 5,
        "go south": 0, "go north": 1, "go east": 2, "go west": 3,
        "move south": 0, "move north": 1, "move east": 2, "move west": 3,
        "pick up passenger": 4, "pick up the passenger": 4,
        "drop off passenger": 5, "drop off the passenger": 5,
    }  # fmt: skip
    end_text = "The passenger is where they wanted to go."
    end_is_success = True

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        self._town = [b"".join(row).decode() for row in self.game.desc.tolist()]
        self._told: dict[int, str] = {}

    def rules_text(self) -> str:
        told = [
            "You drive a taxi: go to the passenger, pick them up, take them to their destination "
            "and drop them off there. On the map, T is the taxi and R, G, Y and B are the stops. "
            "Between two squares, : can be passed and | is a wall; north is up. Rows and columns "
            "count from 0 at the top left. Every move costs 1 point, a pick up or drop off at the "
            "wrong place 10; a passenger at their destination earns 20."
        ]
        if any(len(moves[0]) > 1 for moves in self.game.P.values()):
            chance = 1.0 - getattr(self.game, "rainy_probability", 0.8)
            told.append(f"It rains: with probability {chance:.3g} the taxi drifts to one side.")
        if getattr(self.game, "fickle_passenger", False):
            told.append("A passenger may name another destination on the way.")
        return " ".join([*told, self.limit_text()]).strip()

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        state = int(observation)
        if state not in self._told:
            self._told[state] = self._picture(state)
        line = self.legal_line(info)
        return f"{self._told[state]}\n{line}" if line else self._told[state]

    def _picture(self, state: int) -> str:
        row, column, passenger, goal = map(int, self.game.decode(state))
        town = list(self._town)
        line = town[row + 1]
        town[row + 1] = f"{line[: 2 * column + 1]}T{line[2 * column + 2 :]}"
        waiting = "in the taxi" if passenger == _IN_TAXI else self._stop(passenger)
        return (
            "\n".join(town) + f"\nTaxi: row {row}, column {column}. Passenger: {waiting}. "
            f"Destination: {self._stop(goal)}."
        )

    def _stop(self, number: int) -> str:
        row, column = self.game.locs[number]
        return f"{_STOPS[number]} (row {row}, column {column})"


class BlackjackWords(Phrasebook):
    """The player's points and the dealer's open card."""

    names = ("stick", "hit")
    aliases = {"stand": 0, "stay": 0, "draw": 1, "hit me": 1, "card": 1}

    def rules_text(self) -> str:
        told = [
            "You play blackjack against the dealer. Whoever is closer to 21 wins; above 21 you are "
            "bust and lose. Face cards count 10. An ace counts 11 while that keeps you at 21 or "
            "below (a usable ace), else 1. hit draws a card, stick ends your turn; then the dealer "
            "draws up to 17 or more. A win earns 1 point, a loss costs 1, a draw earns nothing."
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

    def oracle_move(self) -> str:
        """Play the basic strategy."""
        points, ace = sum_hand(self.game.player), usable_ace(self.game.player)  # type: ignore[no-untyped-call]
        card = self.game.dealer[0]
        if ace:
            enough = 19 if card in (1, 9, 10) else 18
        elif card in (1, 7, 8, 9, 10):
            enough = 17
        else:
            enough = 13 if card in (2, 3) else 12
        return "stick" if points >= enough else "hit"

    def ending(self, reward: float) -> str:
        hand = list(self.game.dealer)
        cards = " and ".join("an ace" if card == 1 else str(card) for card in hand)
        told = "It is a draw." if reward == 0.0 else "You win." if reward > 0.0 else "You lose."
        points = sum_hand(hand)  # type: ignore[no-untyped-call]
        return f"The dealer had {cards}: {points} points. {told}"

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return None if terminated and reward == 0.0 else reward > 0.0  # a draw is neither

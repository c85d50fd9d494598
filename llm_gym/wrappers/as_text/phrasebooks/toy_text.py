"""Phrasebooks of Gymnasium's FrozenLake, CliffWalking, Taxi and Blackjack."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
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


def slip_text(transitions: Mapping[int, Mapping[int, Sequence[Any]]]) -> str:
    """Return what the player is told about a slippery ground.

    Gymnasium's slippery grids list three outcomes per move, the one meant in the middle.

    >>> slip_text({0: {0: [(1.0, 0, 0, False)]}})
    ''
    """
    outcomes = [each for moves in transitions.values() for each in moves.values() if len(each) == 3]
    if not outcomes:
        return ""
    return (
        f"With probability {1.0 - float(outcomes[0][1][0]):.3g} you slip to one of the two sides "
        "of your direction instead."
    )


def draw(rows: Sequence[str], at: int) -> str:
    r"""Return the map with the player on it.

    >>> draw(["..", ".G"], 1)
    '. P\n. G'
    """
    cells = [list(row) for row in rows]
    row, column = divmod(at, len(rows[0]))
    cells[row][column] = "P"
    return "\n".join(map(" ".join, cells))


class FrozenLakeWords(Phrasebook):
    """The lake as a map; P is the player, a dot is ice, H is a hole and G is the goal."""

    names = ("left", "down", "right", "up")
    aliases = directions(names)

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        rows = [b"".join(row).decode() for row in self.game.desc.tolist()]
        self._lake = [row.replace("S", ".").replace("F", ".") for row in rows]

    def rules_text(self) -> str:
        parts = [
            "Cross the frozen lake to the goal. On the map, P is you, a dot is ice, H is a hole "
            "and G is the goal. Move up, down, left or right; at the edge you stay where you are.",
            slip_text(self.game.P),
            "If you fall into a hole, you lose.",
        ]
        return " ".join(filter(None, parts))

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return draw(self._lake, int(observation))

    def _cell(self) -> str:
        return "".join(self._lake)[int(self.game.s)]

    def ending(self, reward: float) -> str:
        ends = {"G": "You reach the goal.", "H": "You fall into a hole."}
        return ends.get(self._cell(), self.end_text)

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated and self._cell() == "G"


class CliffWalkingWords(Phrasebook):
    """The ground as a map; P is the player, C is the cliff and G is the goal."""

    names = ("up", "right", "down", "left")
    aliases = directions(names)
    end_text = "You reach the goal."
    end_is_success = True

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        rows = ["".join("C" if cell else "." for cell in row) for row in self.game._cliff]
        self._ground = [*rows[:-1], f"{rows[-1][:-1]}G"]

    def rules_text(self) -> str:
        return (
            "Walk along the cliff to the goal. On the map, P is you, a dot is safe ground, C is "
            "the cliff and G is the goal. Move up, down, left or right; at the edge you stay where "
            "you are. Every move costs 1 point; a step into the cliff costs 100 and takes you back "
            f"to the start, which is the bottom left corner. {slip_text(self.game.P)}"
        ).strip()

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return draw(self._ground, int(observation))


_IN_TAXI = 4
_STOPS = "RGYB"


class TaxiWords(Phrasebook):
    """The town as a map; T is the taxi, R, G, Y and B are the stops."""

    mask_advises = True
    names = ("south", "north", "east", "west", "pick up", "drop off")
    aliases = {
        **directions(["down", "up", "right", "left"]),
        "pickup": 4, "pick up passenger": 4, "pick up the passenger": 4,
        "dropoff": 5, "drop off passenger": 5, "drop off the passenger": 5,
    }  # fmt: skip
    end_text = "The passenger is where they wanted to go."
    end_is_success = True

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        self._town = [b"".join(row).decode() for row in self.game.desc.tolist()]

    def rules_text(self) -> str:
        parts = [
            "You drive a taxi: go to the passenger, pick them up, take them to their destination "
            "and drop them off there. On the map, T is the taxi and R, G, Y and B are the stops. "
            "Between two squares, : can be passed and | is a wall; north is up. Rows and columns "
            "count from 0 at the top left. Every move costs 1 point, a pick up or drop off at the "
            "wrong place 10; a passenger at their destination earns 20."
        ]
        if any(len(moves[0]) > 1 for moves in self.game.P.values()):
            chance = 1.0 - getattr(self.game, "rainy_probability", 0.8)
            parts.append(f"It rains: with probability {chance:.3g} the taxi drifts to one side.")
        if getattr(self.game, "fickle_passenger", False):
            parts.append("A passenger may name another destination on the way.")
        return " ".join(parts)

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        row, column, passenger, goal = map(int, self.game.decode(int(observation)))
        town = list(self._town)
        line = town[row + 1]
        town[row + 1] = f"{line[: 2 * column + 1]}T{line[2 * column + 2 :]}"
        waiting = "in the taxi" if passenger == _IN_TAXI else self._stop(passenger)
        where = f"Taxi: row {row}, column {column}. Passenger: {waiting}. "
        lines = [*town, f"{where}Destination: {self._stop(goal)}.", self.legal_line(info)]
        return "\n".join(filter(None, lines))

    def _stop(self, number: int) -> str:
        row, column = self.game.locs[number]
        return f"{_STOPS[number]} (row {row}, column {column})"


class BlackjackWords(Phrasebook):
    """The player's points and the dealer's open card."""

    names = ("stick", "hit")
    aliases = {"stand": 0, "stay": 0, "draw": 1, "hit me": 1, "card": 1}

    def rules_text(self) -> str:
        parts = [
            "You play blackjack against the dealer. Whoever is closer to 21 wins; above 21 you are "
            "bust and lose. Face cards count 10. An ace counts 11 while that keeps you at 21 or "
            "below (a usable ace), else 1. hit draws a card, stick ends your turn; then the dealer "
            "draws up to 17 or more. A win earns 1 point, a loss costs 1, a draw earns nothing."
        ]
        if getattr(self.game, "sab", False):
            parts.append("With an ace and a ten you win, unless the dealer has them too.")
        elif getattr(self.game, "natural", False):
            parts.append("Winning with an ace and a ten earns 1.5.")
        return " ".join(parts)

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
        result = "It is a draw." if reward == 0.0 else "You win." if reward > 0.0 else "You lose."
        points = sum_hand(hand)  # type: ignore[no-untyped-call]
        return f"The dealer had {cards}: {points} points. {result}"

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return None if terminated and reward == 0.0 else reward > 0.0  # a draw is neither

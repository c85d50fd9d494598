"""Words for Gymnasium's Taxi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from llm_gym.as_text.phrasebooks.book import Phrasebook

_IN_TAXI = 4
_STOPS = "RGYB"


class TaxiWords(Phrasebook):
    """The town as a map; T is the taxi, R, G, Y and B are the stops."""

    names = ("south", "north", "east", "west", "pick up", "drop off")
    aliases = {
        "down": 0, "up": 1, "right": 2, "left": 3, "pickup": 4, "dropoff": 5,
        "go south": 0, "go north": 1, "go east": 2, "go west": 3,
        "move south": 0, "move north": 1, "move east": 2, "move west": 3,
        "pick up passenger": 4, "pick up the passenger": 4,
        "drop off passenger": 5, "drop off the passenger": 5,
    }  # fmt: skip

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
            "wrong place 10; a passenger at their destination earns 20.",
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

    def ending(self, reward: float) -> str:
        return "The passenger is where they wanted to go."

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated

"""Cross a frozen lake without falling into a hole; the ice may be slippery."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from llm_gym import ConfigError, Outcome, TextEnv, go_on, lose, progress, reject, setting, win
from llm_gym.envs.shared.directions import direction_parser, find_directions

DIRECTIONS = ("up", "right", "down", "left")
FAR = 10**6
"""More moves than any lake needs."""


@lru_cache(maxsize=8)
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """Return, per direction and cell, the next cell; a move off the edge stays in place.

    >>> neighbours(2)
    ((0, 1, 0, 1), (1, 1, 3, 3), (2, 3, 2, 3), (0, 0, 2, 2))
    """
    places = range(size * size)
    return (
        tuple(at - size if at >= size else at for at in places),
        tuple(at + 1 if at % size < size - 1 else at for at in places),
        tuple(at + size if at < size * (size - 1) else at for at in places),
        tuple(at - 1 if at % size else at for at in places),
    )


@lru_cache(maxsize=16)
def distances(lake: str) -> dict[int, int]:
    """Return the fewest moves over ice to the goal, from every cell that has a path to it.

    >>> distances("..HG")
    {3: 0, 1: 1, 0: 2}
    """
    around = neighbours(math.isqrt(len(lake)))
    away, queue = {len(lake) - 1: 0}, [len(lake) - 1]
    for at in queue:  # grows while it is read: breadth first
        for way in around:
            if (to := way[at]) not in away and lake[to] == ".":
                away[to] = away[at] + 1
                queue.append(to)
    return away


@lru_cache(maxsize=16)
def win_chances(lake: str, slip: float, turns: int) -> npt.NDArray[np.float64]:
    """Return the chance that optimal play wins, by turns left (0 to ``turns``) and cell.

    The chances are exact: dynamic programming, one step per turn left. The cache keeps the table
    out of the environment, so that snapshots and pickles stay small.
    """
    ahead = np.array(neighbours(math.isqrt(len(lake))))
    side, other = ahead[[1, 2, 3, 0]], ahead[[3, 0, 1, 2]]
    ice = np.array([cell == "." for cell in lake])
    chances = np.zeros((turns + 1, len(lake)))
    chances[:, -1] = 1.0
    for left in range(1, turns + 1):
        after = chances[left - 1]
        ways = (1 - slip) * after[ahead] + slip / 2 * (after[side] + after[other])
        np.copyto(chances[left], ways.max(axis=0), where=ice)
    return chances


def best_move(lake: str, at: int, slip: float, left: int, turns: int) -> str:
    """Return the optimal move with ``left`` of ``turns`` turns left; a shorter path breaks ties.

    >>> best_move("...G", 0, 0.0, 2, 2), best_move(".H.G", 0, 0.0, 2, 2)
    ('right', 'down')
    """
    chances = win_chances(lake, slip, turns)[left - 1]
    away = distances(lake)
    ends = [way[at] for way in neighbours(math.isqrt(len(lake)))]

    def merit(way: int) -> tuple[float, int]:
        sides = chances[ends[way - 1]] + chances[ends[(way + 1) % 4]]
        chance = (1 - slip) * chances[ends[way]] + slip / 2 * sides
        return round(float(chance), 9), -away.get(ends[way], FAR)

    return DIRECTIONS[max(range(4), key=merit)]


parse_direction = direction_parser(DIRECTIONS, verbs=("go", "move", "walk"))
_ROW = re.compile(r"^(?:[P.HG] )+[P.HG]$", re.MULTILINE)
_SLIP = re.compile(r"With probability ([0-9.e-]+) the ice")
_TURNS = re.compile(r"Turns left: (\d+)")
_DRAWS = 20  # lakes drawn before a path is kept free on purpose


def draw_map(lake: str, size: int) -> str:
    r"""Return the lake as the player sees it, without the player.

    >>> draw_map("..HG", 2)
    '. .\nH G'
    """
    cells, width = " ".join(lake), 2 * size
    return "\n".join([cells[at : at + width - 1] for at in range(0, len(cells), width)])


class FrozenLakeEnv(TextEnv):
    """Cross a frozen lake to the goal without falling into a hole.

    Description:
        Every episode draws a square lake with holes. There is always a path from the top left
        corner to the goal in the bottom right corner that fits into ``max_turns``. With ``slip``,
        a move may go to the left or right of the chosen direction.

    Actions:
        ``up``, ``down``, ``left`` or ``right``. ``north``, ``south``, ``west`` and ``east`` also
        work, and so do a leading ``go``, ``move`` or ``walk`` and square brackets. A move against
        the edge is usable, costs a turn and leaves the player in place.

    Observations:
        The result of the last move, the map and the turns left. P is the player, a dot is ice, H
        is a hole and G is the goal.

    Rewards:
        1 for reaching the goal, otherwise 0. With ``shaping``, the potential is the
        ``progress`` along the shortest path over ice.

    Episode end:
        Terminates at the goal (won), in a hole (lost) and after ``max_turns`` moves (lost).

    Args:
        size: Rows and columns of the lake, 2 to 30.
        hole_probability: Probability that a cell, other than start and goal, is a hole. Lakes
            without a path are drawn again.
        holes: Exact number of holes, at most (size - 1) squared; replaces
            ``hole_probability``.
        slip: Probability, in [0, 1], that a move goes to one side of the chosen direction; both
            sides are equally likely. 0 is deterministic; 2/3 is Gymnasium's slippery lake.
        max_turns: Moves allowed, at least the shortest path on a lake without holes.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    is_markov = True

    size: int = setting(4, 2, 30)
    hole_probability: float = setting(0.2)
    holes: int | None = setting(None)
    slip: float = setting(0.0, 0, 1)
    max_turns: int = setting(20)

    def check_settings(self) -> None:
        if not 0.0 <= self.hole_probability < 1.0:
            raise ConfigError(f"hole_probability must be in [0, 1), got {self.hole_probability}")
        self.check_range("holes", 0, (self.size - 1) ** 2)
        self.check_range("max_turns", 2 * (self.size - 1))

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        size = round(4 + 6 * difficulty)
        return {
            "size": size,
            "hole_probability": 0.1 + 0.2 * difficulty,
            "holes": None,
            "max_turns": 4 * size,
        }

    def new_game(self, rng: np.random.Generator) -> None:
        self._at = 0
        inner = list(range(1, self.size**2 - 1))
        for _ in range(_DRAWS):
            self._lake = self._dig(inner, rng)
            if distances(self._lake).get(0, FAR) <= self.max_turns:
                break
        else:
            # Holes this dense hardly ever leave a path: keep a random shortest one free.
            steps = rng.permutation([1, self.size] * (self.size - 1))
            inner = sorted(set(inner) - set(np.cumsum(steps).tolist()))
            self._lake = self._dig(inner, rng)
        self._map = draw_map(self._lake, self.size)

    def _dig(self, places: list[int], rng: np.random.Generator) -> str:
        holes = self.holes
        if holes is None:
            holes = int(rng.binomial(len(places), self.hole_probability))
        cells = ["."] * (self.size**2 - 1) + ["G"]
        for index in rng.permutation(len(places))[:holes].tolist():
            cells[places[index]] = "H"
        return "".join(cells)

    def rules_text(self) -> str:
        slippery = (
            f"With probability {self.slip:.3g} the ice carries you to one of the two sides of your "
            "direction instead. "
            if self.slip
            else ""
        )
        return (
            "Cross the frozen lake to the goal. On the map, P is you, a dot is ice, H is a hole "
            "and G is the goal. Your move is up, down, left or right; at the edge you stay where "
            f"you are. {slippery}If you fall into a hole, you lose."
        )

    def example_moves(self) -> Sequence[str]:
        return ["right", "down", "left", "up"]

    def describe(self) -> str:
        # A cell and the space or newline after it are two characters.
        ahead, behind = self._map[: 2 * self._at], self._map[2 * self._at + 1 :]
        return f"{ahead}P{behind}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        way = parse_direction(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        verb = "move"
        if self.slip and (roll := self.np_random.random()) < self.slip:
            way, verb = (way + (1 if roll < self.slip / 2 else 3)) % 4, "slip"
        at = neighbours(self.size)[way][self._at]
        if at == self._at:
            return go_on(f"You {verb} {DIRECTIONS[way]}, but the edge stops you.")
        self._at = at
        if self._lake[at] == ".":
            return go_on(f"You {verb} {DIRECTIONS[way]}.")
        if self._lake[at] == "G":
            return win(f"You {verb} {DIRECTIONS[way]} and reach the goal.")
        return lose(f"You {verb} {DIRECTIONS[way]} and fall into a hole.")

    def instance(self) -> object:
        return self._lake

    def legal_moves(self) -> Sequence[str]:
        return DIRECTIONS

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Go right or down, and never into a hole."""
        around = [ways[self._at] for ways in neighbours(self.size)]
        ways = [w for w, to in enumerate(around) if to != self._at and self._lake[to] != "H"]
        ahead = [way for way in ways if DIRECTIONS[way] in ("right", "down")]
        some = ahead if ahead and rng.random() < 0.8 else ways
        return DIRECTIONS[some[int(rng.random() * len(some))]] if some else DIRECTIONS[0]

    def oracle_move(self) -> str:
        return best_move(self._lake, self._at, self.slip, self.turns_left, self.max_turns)

    def oracle_value(self) -> float:
        return float(win_chances(self._lake, self.slip, self.max_turns)[self.turns_left, self._at])

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Plan on the map that is shown."""
        rules, seen = observations[0], observations[-1]
        slip, shown = _SLIP.search(rules), "".join(_ROW.findall(seen)).replace(" ", "")
        turns, left = (int(_TURNS.findall(text)[0]) for text in (rules, seen))
        lake = shown.replace("P", ".")
        return best_move(lake, shown.index("P"), float(slip[1]) if slip else 0.0, left, turns)

    def potential(self) -> float:
        away = distances(self._lake)
        return progress(away[self._at], away[0])  # the player always starts in cell 0

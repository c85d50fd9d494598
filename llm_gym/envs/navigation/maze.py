"""Find the exit of a maze that the player sees as a whole or only in part."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, progress, reject, setting, win
from llm_gym.envs.navigation.frozen_lake import parse_direction
from llm_gym.envs.shared.bit_grid import DIRECTIONS, each, steps, waves
from llm_gym.envs.shared.directions import find_directions

Cell = tuple[int, int]
_MOVES: tuple[Cell, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))


@lru_cache(maxsize=32)
def doors(size: int) -> dict[int, list[tuple[int, int]]]:
    """Return, for each room of a map ``size`` cells wide, its doors and the rooms behind them.

    >>> doors(5)
    {6: [(7, 8), (11, 16)], 8: [(13, 18), (7, 6)], 16: [(11, 6), (17, 18)], 18: [(13, 8), (17, 16)]}
    """
    rooms = [row * size + col for row in range(1, size, 2) for col in range(1, size, 2)]
    return {
        room: [
            (room + step, room + 2 * step)
            for step in steps(size)
            if room + 2 * step in rooms and abs((room + step) % size - room % size) <= 1
        ]
        for room in rooms
    }


def carve(size: int, loops: float, rng: np.random.Generator) -> int:
    """Return the floor of a maze: a random tree of rooms, plus a share ``loops`` of other doors."""
    around = doors(size)
    draws = rng.random(len(around)).tolist()
    at = list(around)[int(draws.pop() * len(around))]
    left, floor, trail = set(around) - {at}, 1 << at, [at]
    while left:
        ahead = [way for way in around[at] if way[1] in left]
        if not ahead:
            at = trail.pop()
            continue
        trail.append(at)
        door, at = ahead[int(draws.pop() * len(ahead))]
        left.remove(at)
        floor |= 1 << door | 1 << at
    if loops:
        closed = sorted(
            {door for ways in around.values() for door, _ in ways if not floor >> door & 1}
        )
        for index in rng.permutation(len(closed))[: round(loops * len(closed))].tolist():
            floor |= 1 << closed[index]
    return floor


@lru_cache(maxsize=16)
def distances(floor: int, to: int, size: int) -> dict[int, int]:
    """Return the fewest moves over ``floor`` to the cell ``to``, from every floor cell."""
    layers = waves(to, floor, size)
    return {cell: moves for moves, wave in enumerate(layers) for cell in each(wave)}


def next_step(known: Mapping[Cell, str], at: Cell) -> int:
    """Return the direction towards the exit, or towards the nearest cell not seen yet.

    ``known`` holds a letter for every cell seen: # is a wall, E the exit. The exit comes first if
    a path to it is known. Returns 0 if there is nothing left to find.

    >>> next_step({(0, 0): "P", (0, 1): ".", (0, 2): "E", (1, 0): "."}, (0, 0))
    1
    """
    first: dict[Cell, int] = {at: 0}
    queue, unseen = [at], None
    for cell in queue:  # grows while it is read: breadth first
        if known.get(cell) == "E":
            return first[cell]
        if cell not in known:
            unseen = cell if unseen is None else unseen
            continue
        for way, (down, right) in enumerate(_MOVES):
            to = (cell[0] + down, cell[1] + right)
            if to not in first and known.get(to) != "#":
                first[to] = way if cell == at else first[cell]
                queue.append(to)
    return 0 if unseen is None else first[unseen]


_MOVED = [f"You move {name}." for name in DIRECTIONS]
_WALLED = [f"You cannot move {name}: there is a wall." for name in DIRECTIONS]
_ROW = re.compile(r"^(?:[#.EP] )+[#.EP]$", re.MULTILINE)
_VIEW = "You see the cells up to"
_BITS = str.maketrans("#.EP", "0111")


def towards(to: int, at: int, floor: int, side: int) -> str:
    """Return the first move of a shortest path from ``at`` to ``to``."""
    away = distances(floor, to, side)
    ahead = [away.get(at + step, len(away)) for step in steps(side)]
    return DIRECTIONS[ahead.index(min(ahead))]


def recall(observations: Sequence[str]) -> tuple[dict[Cell, str], Cell]:
    r"""Return the map that partial views have shown so far, and the player's cell on it.

    >>> recall(["# # #\n. P #\n# # #", "You move left.\n# # #\n. P .\n# # #"])[1]
    (0, -1)
    """
    known: dict[Cell, str] = {}
    row = col = 0
    for text in observations:
        if text.startswith("You move "):
            down, right = _MOVES[DIRECTIONS.index(text[9 : text.index(".")])]
            row, col = row + down, col + right
        lines = _ROW.findall(text)
        view = len(lines) // 2
        for up, line in enumerate(lines, row - view):
            known |= {(up, left): cell for left, cell in enumerate(line[::2], col - view)}
    return known, (row, col)


class MazeEnv(TextEnv):
    """Find the exit of a maze.

    Description:
        Every episode draws a square maze of rooms. The player begins in a random room; the exit
        is in the farthest room that ``max_turns`` moves can reach. With ``view``, only the cells
        around the player are shown, and the player has to explore and to remember.

    Actions:
        ``up``, ``down``, ``left`` or ``right``. ``north``, ``south``, ``west`` and ``east`` also
        work, and so do a leading ``go``, ``move`` or ``walk`` and square brackets. A move against
        a wall is usable, costs a turn and leaves the player in place.

    Observations:
        The result of the last move, the map or the part of it in view, and the turns left. P is
        the player, # a wall, a dot a free cell and E the exit. A partial map has the player in
        its middle and shows cells outside the maze as walls.

    Rewards:
        1 for reaching the exit, otherwise 0. With ``shaping``, the potential is the
        ``progress`` along the shortest path.

    Episode end:
        Terminates at the exit (won) and after ``max_turns`` moves (lost).

    Args:
        size: Rooms per side, 2 to 15. The map has 2 * size + 1 cells per side because walls are
            cells too. A move goes one cell.
        loops: Share, in [0, 1], of the remaining walls between rooms that are opened after the
            maze is connected. 0 leaves exactly one path between any two rooms.
        view: How many cells the player sees in each direction, also through walls, 1 to 15; None
            shows the whole map.
        max_turns: Moves allowed, at least 2 * size.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    size: int = setting(5, 2, 15)
    loops: float = setting(0.0, 0, 1)
    view: int | None = setting(None, 1, 15)
    max_turns: int = setting(50)

    @property
    def is_markov(self) -> bool:
        return self.view is None

    def check_settings(self) -> None:
        self.check_range("max_turns", 2 * self.size)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        size = round(3 + 7 * difficulty)
        return {"size": size, "max_turns": 2 * size * size}

    def new_game(self, rng: np.random.Generator) -> None:
        self._side = side = 2 * self.size + 1
        self._floor = floor = carve(side, self.loops, rng)
        rooms = list(doors(side))
        self._at = self._start = rooms[int(rng.random() * len(rooms))]
        away = distances(floor, self._start, side)
        # Rooms are an even number of moves apart.
        reach = min(max(away.values()), self.max_turns) // 2 * 2
        farthest = [room for room in rooms if away[room] == reach]
        self._exit = farthest[int(rng.random() * len(farthest))]
        self._steps = steps(side)
        self._draw_map()
        self._been = {self._start}

    def _draw_map(self) -> None:
        """Write the text of the map, in a frame of walls that is as wide as the view."""
        view, side = self.view or 0, self._side
        cells = [
            "E" if cell == self._exit else "." if self._floor >> cell & 1 else "#"
            for cell in range(side * side)
        ]
        frame, edge = ["#" * (side + 2 * view)] * view, "#" * view
        lines = [edge + "".join(cells[at : at + side]) + edge for at in range(0, side**2, side)]
        self._lines = [" ".join(line) for line in [*frame, *lines, *frame]]

    def rules_text(self) -> str:
        shown = (
            "On the map, "
            if self.view is None
            else f"{_VIEW} {self.view} step{'s' * (self.view > 1)} away from you in every "
            "direction, with you in the middle; what is outside of the maze looks like a wall. "
            "In the picture, "
        )
        return (
            f"Find the exit of a maze of {2 * self.size + 1} by {2 * self.size + 1} cells. {shown}"
            "P is you, # is a wall, a dot is a free cell and E is the exit. Your move is up, "
            "down, left or right, one cell at a time; a wall stops you and costs a turn."
        )

    def example_moves(self) -> Sequence[str]:
        return ["right", "down", "left", "up"]

    def describe(self) -> str:
        return f"{self._picture(self._at)}\nTurns left: {self.turns_left}."

    def _picture(self, at: int) -> str:
        """Return what a player in the cell ``at`` sees."""
        row, col = divmod(at, self._side)
        lines, view = self._lines.copy(), self.view or 0
        line, place = lines[row + view], 2 * (col + view)  # a cell and the space after it
        lines[row + view] = f"{line[:place]}P{line[place + 1 :]}"
        if view:
            lines = [
                line[2 * col : place + 2 * view + 1] for line in lines[row : row + 2 * view + 1]
            ]
        return "\n".join(lines)

    def apply(self, move: str) -> Outcome:
        way = parse_direction(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        to = self._at + self._steps[way]
        if not self._floor >> to & 1:
            return go_on(_WALLED[way])
        self._at = to
        if to == self._exit:
            return win(f"{_MOVED[way]} You are at the exit.")
        self._been.add(to)
        return go_on(_MOVED[way])

    def instance(self) -> object:
        if self.view is None:
            return (self._floor, self._start, self._exit)
        return (self.size, self._picture(self._start))  # the same picture is the same instance

    def swap_secret(self, rng: np.random.Generator) -> bool:
        if self.view is None:
            return False
        unseen = [room for room in doors(self._side) if not self._has_seen(room)]
        if self._exit not in unseen or len(unseen) < 2:
            return False
        unseen.remove(self._exit)
        self._exit = unseen[int(rng.integers(len(unseen)))]
        self._draw_map()
        return True

    def _has_seen(self, room: int) -> bool:
        row, col = divmod(room, self._side)
        view = self.view or self._side
        return any(
            abs(row - at // self._side) <= view and abs(col - at % self._side) <= view
            for at in self._been
        )

    def legal_moves(self) -> Sequence[str]:
        return DIRECTIONS

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Follow the wall on the right-hand side."""
        last = parse_direction(self._base_moves[-1]) if self._base_moves else None
        heading = 0 if last is None else last
        turns = [(heading + turn) % 4 for turn in (1, 0, 3, 2)]
        free = [way for way in turns if self._floor >> (self._at + self._steps[way]) & 1]
        return DIRECTIONS[free[0]]

    def oracle_move(self) -> str:
        return towards(self._exit, self._at, self._floor, self._side)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Walk to the exit if it has been seen, else to the nearest unseen cell."""
        if _VIEW in observations[0]:
            return DIRECTIONS[next_step(*recall(observations))]
        lines = _ROW.findall(observations[-1])
        cells = "".join(lines).replace(" ", "")
        floor = int(cells[::-1].translate(_BITS), 2)
        return towards(cells.index("E"), cells.index("P"), floor, len(lines))

    def potential(self) -> float:
        away = distances(self._floor, self._exit, self._side)
        return progress(away[self._at], away[self._start])

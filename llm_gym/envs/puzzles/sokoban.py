"""Push every box onto a goal; boxes cannot be pulled."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym.core.env import TextEnv
from llm_gym.core.game import progress
from llm_gym.core.outcome import Outcome, go_on, reject, win
from llm_gym.core.settings import setting
from llm_gym.envs.puzzles.sokoban_levels import (
    Level,
    Room,
    draw_level,
    most_pushes,
    plan,
    pushes_to_go,
    solution,
)
from llm_gym.envs.shared.bit_grid import DIRECTIONS, each, steps
from llm_gym.envs.shared.directions import direction_parser, find_directions

parse_direction = direction_parser(DIRECTIONS, verbs=("go", "move", "push"))
_WALL, _FLOOR, _GOAL, _BOX, _HOME, _PLAYER, _ON_GOAL = b"#.OX*PS"
# What a cell becomes when a box or the player comes or goes; a cell not listed does not allow it.
_WITH_BOX = {_FLOOR: _BOX, _GOAL: _HOME}
_WITHOUT_BOX = {_BOX: _FLOOR, _HOME: _GOAL}
_WITH_PLAYER = {_FLOOR: _PLAYER, _GOAL: _ON_GOAL}
_WITHOUT_PLAYER = {_PLAYER: _FLOOR, _ON_GOAL: _GOAL}
_MOVED = [f"You move {name}." for name in DIRECTIONS]
_PUSHED = [f"You push a box {name}." for name in DIRECTIONS]
_WALLED = [f"You cannot move {name}: there is a wall." for name in DIRECTIONS]
_JAMMED = [f"You cannot push the box {name}: there is no room behind it." for name in DIRECTIONS]
_BITS = str.maketrans("01", "#.")
_BOARD = re.compile(r"(?:^#(?: [#.OX*PS])+\n)+", re.MULTILINE)


def draw_board(level: Level) -> bytearray:
    """Return the level as it is shown: a cell is itself and the space or newline after it."""
    size, floor, goals = level.room
    cells = f"{floor:0{size * size}b}"[::-1].translate(_BITS)
    board = bytearray(" ".join(cells) + "\n", "ascii")
    board[2 * size - 1 :: 2 * size] = b"\n" * size
    for place in each(goals):
        board[2 * place] = _GOAL
    for place in each(level.boxes):
        board[2 * place] = _WITH_BOX[board[2 * place]]
    board[2 * level.player] = _WITH_PLAYER[board[2 * level.player]]
    return board


def read_board(board: str) -> tuple[Room, int, int]:
    r"""Return the room, the boxes and the player's place of a board as it is shown.

    >>> room, boxes, player = read_board("# # # #\n# P * #\n# # # #\n# # # #\n")
    >>> room.size, bin(room.goals), bin(boxes), player
    (4, '0b1000000', '0b1000000', 5)
    """
    cells = board.replace(" ", "").replace("\n", "")

    def where(kinds: str) -> int:
        return sum([1 << place for place, cell in enumerate(cells) if cell in kinds])

    size = board.count("\n")
    return Room(size, where(".OX*PS"), where("O*S")), where("X*"), where("PS").bit_length() - 1


@lru_cache(maxsize=64)
def plan_board(board: str) -> list[int] | None:
    """Return directions that solve ``board``, or None; kept, as every turn asks again."""
    return plan(*read_board(board))


def _next_move(planned: list[int] | None, moves: Sequence[str], board: str) -> str:
    """Return the next move of a plan, or of a new one where ``moves`` have left it."""
    made = [parse_direction(move) for move in moves]
    if planned and made == planned[: len(made)]:
        return DIRECTIONS[planned[len(made)]]
    again = plan_board(board)
    return DIRECTIONS[again[0] if again else 0]


class SokobanEnv(TextEnv):
    """Push every box onto a goal. Boxes can be pushed one at a time and never pulled.

    Description:
        A square room with walls all around, drawn by playing backwards from its solution, so
        that it can always be solved within ``max_turns`` moves. A box in a corner is stuck for
        good: the game goes on, but is lost.

    Actions:
        ``up``, ``down``, ``left`` or ``right``; ``north``, ``south``, ``west`` and ``east``
        do too, also after ``go``, ``move`` or ``push`` and in square brackets. A blocked move is
        usable, costs a turn and changes nothing.

    Observations:
        What the last move did, the room and the turns left. # is a wall, a dot is floor, O a
        goal, X a box, * a box on a goal, P the player and S the player on a goal.

    Rewards:
        1 for solving the room, otherwise 0. With ``shaping``, the potential is the
        ``progress`` of the pushes, counted as if every box were alone; with a box that is stuck
        it is 0.

    Episode end:
        Terminates when every box is on a goal (won) and after ``max_turns`` moves (lost).

    Args:
        size: Rows and columns of the room, outer walls included, 5 to 10.
        boxes: Boxes, and as many goals, 1 to 5.
        min_pushes: Pushes that every level takes at least; at most size - 4 for one box and
            2 (size - 4) for several.
        max_turns: Moves allowed, at least 5 times ``min_pushes``.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    observation_says_all = True

    size: int = setting(6, 5, 10)
    boxes: int = setting(2, 1, 5)
    min_pushes: int = setting(3)
    max_turns: int = setting(20)

    def check_settings(self) -> None:
        self.check_range("min_pushes", 1, most_pushes(self.size, self.boxes))
        self.check_range("max_turns", 5 * self.min_pushes, why="5 for each of min_pushes")

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        size, boxes = round(5 + 3 * difficulty), round(1 + 3 * difficulty)
        pushes = max(1, most_pushes(size, boxes) - 1)
        return {"size": size, "boxes": boxes, "min_pushes": pushes, "max_turns": 7 * pushes}

    def new_game(self, rng: np.random.Generator) -> None:
        level = draw_level(self.size, self.boxes, self.min_pushes, self.max_turns, rng)
        self._level = level
        self._board = draw_board(level)
        self._start, self._at = self._board.decode(), 2 * level.player
        self._strays = (level.boxes & ~level.room.goals).bit_count()
        self._steps = [2 * step for step in steps(self.size)]

    def rules_text(self) -> str:
        task = "the box onto the goal" if self.boxes == 1 else f"the {self.boxes} boxes onto goals"
        return (
            f"Push {task}. In the room, # is a wall, a dot is floor, O is a goal, X is a box, * is "
            "a box on a goal, P is you and S is you on a goal. Your move is up, down, left or "
            "right; if you move into a box, you push it, where the cell behind it is free. You "
            "cannot pull "
            "a box, nor push two at once. A blocked move changes nothing and costs a turn."
        )

    def example_moves(self) -> Sequence[str]:
        return ["right", "down", "left", "up"]

    def describe(self) -> str:
        return f"{self._board.decode()}Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        way = parse_direction(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        board, at, step = self._board, self._at, self._steps[way]
        to, text = at + step, _MOVED[way]
        cell = board[to]
        if cell == _WALL:
            return go_on(_WALLED[way])
        if cell in _WITHOUT_BOX:
            behind = board[to + step]
            if behind not in _WITH_BOX:
                return go_on(_JAMMED[way])
            board[to + step] = _WITH_BOX[behind]
            self._strays += (behind == _FLOOR) - (cell == _BOX)
            cell, text = _WITHOUT_BOX[cell], _PUSHED[way]
        board[to], board[at], self._at = _WITH_PLAYER[cell], _WITHOUT_PLAYER[board[at]], to
        if not self._strays:
            return win(f"{text} Every box is on a goal.")
        return go_on(text)

    def instance(self) -> object:
        return self._start

    def legal_moves(self) -> Sequence[str]:
        return DIRECTIONS

    def oracle_move(self) -> str:
        # The generator's own solution always fits into the turns, and often makes detours.
        own, planned = solution(self._level), plan_board(self._start)
        best = planned if planned and len(planned) <= len(own) else own
        return _next_move(best, self._base_moves, self._board.decode())

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Plan once, and again only where the moves so far are not those of the plan."""
        first, now = (_BOARD.findall(observations[turn])[0] for turn in (0, -1))
        return _next_move(plan_board(first), moves, now)

    def potential(self) -> float:
        room, boxes, _ = read_board(self._board.decode())
        start = read_board(self._start)[1]
        return progress(pushes_to_go(room, boxes), pushes_to_go(room, start))

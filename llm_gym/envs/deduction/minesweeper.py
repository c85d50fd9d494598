"""Clear a minefield; each revealed cell shows the number of mines around it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, lose, reject, setting, win
from llm_gym.envs.deduction.minesweeper_solver import (
    MINE,
    best_cell,
    can_be_proved,
    neighbours,
    number_cells,
)
from llm_gym.reading.moves import Named

HIDDEN, FLAG, ZERO = ord("."), ord("F"), ord("0")
_MOST_PROVABLE = 16  # rows or columns: drawing larger ``no_guess`` fields takes too long
_MOVE = re.compile(
    r"\[?(?:(reveal|open|flag) )?\(?([0-9]{1,2})(?:, ?| )([0-9]{1,2})\)?\]?", re.IGNORECASE
)
_MINES = re.compile(r"hides (\d+) mine")
_ROW = re.compile(r"^ *\d+\|([ .F0-8]+)$", re.MULTILINE)


_DIGIT = re.compile("[0-9]")
_DUG = re.compile(
    r"(?:\b(reveal|open|dig|uncover|flag|mark)\s+)?(?:the\s+)?(?:cell\s+|square\s+)?(?:at\s+|in\s+|on\s+)?"
    r"(?:(?<![\w.,|])(?<!\d )[\[(]?([0-9]{1,2})(?:, ?| )([0-9]{1,2})[\])]?(?![ ,]{1,2}[0-9]"
    r"|\w|\s?\|)"
    r"|\brow\s+([0-9]{1,2})\W{1,3}(?:and\s+)?col(?:umn)?\s+([0-9]{1,2})(?!\w))",
    re.IGNORECASE,
)


@lru_cache(maxsize=32)
def chart(rows: int, cols: int) -> tuple[bytes, list[int]]:
    r"""Return the text of a hidden field, and the index of each cell in it.

    >>> chart(2, 3)
    (b'   0 1 2\n0| . . .\n1| . . .', [12, 14, 16, 21, 23, 25])
    """
    width = len(str(max(rows, cols) - 1))
    lines = [" " * width + " " + "".join(f" {col:>{width}}" for col in range(cols))]
    lines += [f"{row:>{width}}|" + f" {'.':>{width}}" * cols for row in range(rows)]
    text = "\n".join(lines).encode()
    return text, [at for at, sign in enumerate(text) if sign == HIDDEN]


def find_digs(text: str) -> Iterator[Named]:
    """Yield the moves that a sentence names.

    >>> [move for *_, move in find_digs("I flag row 2, column 1 and reveal (0, 3).")]
    ['flag 2 1', 'reveal 0 3']
    """
    for one in _DUG.finditer(text) if _DIGIT.search(text) else ():
        verb = "flag" if (one[1] or "").lower() in ("flag", "mark") else "reveal"
        yield one.start(), one.end(), f"{verb} {one[2] or one[4]} {one[3] or one[5]}"


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_dig(move: str) -> tuple[bool, int, int] | None:
    """Return whether ``move`` sets a flag, and its row and column, or None.

    >>> parse_dig("reveal 0 3"), parse_dig("flag (2, 1)"), parse_dig("[4 0]")
    ((False, 0, 3), (True, 2, 1), (False, 4, 0))
    >>> parse_dig("reveal 3"), parse_dig("dig 1 2"), parse_dig("reveal -1 2")
    (None, None, None)
    """
    found = _MOVE.fullmatch(move)
    if found is None:
        return None
    verb, row, col = found.groups()
    return verb is not None and verb.lower() == "flag", int(row), int(col)


class MinesweeperEnv(TextEnv):
    """Reveal every cell of a field that is not a mine.

    Description:
        A field hides mines. A revealed cell shows how many of the cells around it, diagonals
        included, are mines; if that number is 0, the cells around it are revealed too. The first
        revealed cell and its neighbours are never mines. The player wins by revealing every safe
        cell. Flags are notes for the player and have no effect on the result.

    Actions:
        ``reveal 2 3`` for row 2 and column 3, counted from 0; ``2 3`` and ``[2 3]`` also work.
        ``flag 2 3`` sets or removes a flag and costs a turn. A cell outside the field, a revealed
        cell, and revealing a flagged cell are unusable.

    Observations:
        The field and the turns left. A dot is a hidden cell, F a flag and a digit a revealed
        cell.

    Rewards:
        1 for clearing the field, otherwise 0. With ``shaping``, the potential is the share of
        the safe cells that are revealed.

    Episode end:
        Terminates when every safe cell is revealed (won), when a mine is revealed (lost) and
        after ``max_turns`` moves (lost).

    Args:
        rows: Rows of the field, 4 to 30.
        cols: Columns of the field, 4 to 30.
        mines: Number of mines, at most 9 fewer than there are cells.
        no_guess: Place the mines such that no guess is needed: after any first cell, the numbers
            always prove that some hidden cell is safe. Needs at most 16 rows and columns, and
            mines in at most a fifth of the cells.
        max_turns: Moves allowed, at least the number of safe cells.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_digs)
    is_markov = True

    rows: int = setting(8, 4, 30)
    cols: int = setting(8, 4, 30)
    mines: int = setting(10)
    no_guess: bool = setting(False)
    max_turns: int = setting(64)

    def check_settings(self) -> None:
        cells = self.rows * self.cols
        self.check_range("mines", 1, cells - 9)
        if self.no_guess and (max(self.rows, self.cols) > _MOST_PROVABLE or 5 * self.mines > cells):
            raise ConfigError(
                f"no_guess needs at most {_MOST_PROVABLE} rows and columns and a mine in at most "
                f"every fifth cell, got {self.rows} by {self.cols} cells and {self.mines} mines"
            )
        self.check_range("max_turns", cells - self.mines, why="the number of safe cells")

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        side = round(5 + 5 * difficulty)
        return {
            "rows": side,
            "cols": side,
            "mines": round(side * side * (0.12 + 0.08 * difficulty)),
            "max_turns": side * side,
        }

    def new_game(self, rng: np.random.Generator) -> None:
        text, self._places = chart(self.rows, self.cols)
        self._text = bytearray(text)
        # The first cell must be safe, so the mines are placed after it is known: on the first
        # cells in this order that are not next to it.
        self._order: list[int] = rng.permutation(self.rows * self.cols).tolist()
        self._numbers: list[int] = []
        self._safe_left = self.rows * self.cols - self.mines

    def _mines_after(self, first: int) -> list[int]:
        """Return where the mines are when ``first`` is the first cell to be revealed."""
        around = neighbours(self.rows, self.cols)
        near = {first, *around[first]}
        # So many cells hold enough outside ``near``; only ``no_guess`` may draw others instead.
        enough = None if self.no_guess else self.mines + len(near)
        free = [cell for cell in self._order[:enough] if cell not in near]
        mines = free[: self.mines]
        if self.no_guess:
            rng = np.random.default_rng(self._order)  # so the instance fixes the mines
            while not can_be_proved(self.rows, self.cols, sum(1 << at for at in mines), first):
                mines = rng.choice(free, self.mines, replace=False).tolist()
        return mines

    @property
    def _middle(self) -> int:
        return self.rows // 2 * self.cols + self.cols // 2

    def rules_text(self) -> str:
        proof = "; from there on you never need to guess: the numbers prove some cell safe"
        return (
            f"A field of {self.rows} rows and {self.cols} columns, both counted from 0, hides "
            f"{self.mines} mine{'s' * (self.mines != 1)}. A dot is a hidden cell; a digit says how "
            "many of the cells around it, diagonals included, are mines. Your move is reveal, a "
            "row and a column; around a 0, all cells are revealed as well. The first cell you "
            f"reveal and those around it are safe{proof if self.no_guess else ''}. Reveal every "
            "cell that is not a mine to win; reveal a mine and you lose. With flag, a row and a "
            "column you may mark a hidden cell with F, or remove the mark, which costs a turn. You "
            "cannot name a flagged cell to reveal it, and you need no flags to win."
        )

    def example_moves(self) -> Sequence[str]:
        return ["reveal 1 2", "flag 0 3", "reveal 0 0"]

    def describe(self) -> str:
        return f"{self._text.decode()}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        dig = parse_dig(move)
        if dig is None:
            return reject("Your move must be reveal or flag with a row and a column.")
        flag, row, col = dig
        if row >= self.rows or col >= self.cols:
            return reject(
                f"Rows go from 0 to {self.rows - 1} and columns from 0 to {self.cols - 1}."
            )
        cell = row * self.cols + col
        mark = self._text[self._places[cell]]
        if mark != HIDDEN and mark != FLAG:
            return reject(f"The cell in row {row}, column {col} is revealed already.")
        if flag:
            self._text[self._places[cell]] = HIDDEN if mark == FLAG else FLAG
            did = "remove the flag from" if mark == FLAG else "flag"
            return go_on(f"You {did} row {row}, column {col}.")
        if mark == FLAG:
            return reject(f"The cell in row {row}, column {col} is flagged; remove the flag first.")
        return self._reveal(cell)

    def _reveal(self, cell: int) -> Outcome:
        if not self._numbers:
            self._numbers = number_cells(self.rows, self.cols, self._mines_after(cell))
        numbers, text, places = self._numbers, self._text, self._places
        if numbers[cell] == MINE:
            return lose(f"You reveal a mine at {self._name(cell)}. {self.reveal()}")
        for at in self._opened(numbers, cell):
            if text[places[at]] in (HIDDEN, FLAG):
                text[places[at]] = ZERO + numbers[at]
                self._safe_left -= 1
        if not self._safe_left:
            return win("You have cleared the field.")
        return go_on(f"You reveal row {cell // self.cols}, column {cell % self.cols}.")

    def _opened(self, numbers: Sequence[int], cell: int) -> list[int]:
        if numbers[cell]:
            return [cell]
        around, queue, seen = neighbours(self.rows, self.cols), [cell], {cell}
        for at in queue:  # grows while it is read
            if numbers[at] == 0:
                new = [near for near in around[at] if near not in seen]
                seen.update(new)
                queue += new
        return queue

    def _plan(self) -> list[int]:
        """Return the cells that the oracle reveals in this episode."""
        cell, cells = self._middle, list[int]()
        numbers = number_cells(self.rows, self.cols, self._mines_after(cell))
        hidden = [at for at, number in enumerate(numbers) if number != MINE]
        while hidden:
            cells.append(cell)
            opened = set(self._opened(numbers, cell))
            hidden = [at for at in hidden if at not in opened]
            cell = min(hidden, key=numbers.__getitem__, default=cell)
        return cells

    def reveal(self) -> str:
        cols = self.cols
        mines = [f"{at // cols} {at % cols}" for at, n in enumerate(self._numbers) if n == MINE]
        return f"The mines were at {', '.join(mines)}." if mines else ""

    def _name(self, cell: int) -> str:
        return f"{cell // self.cols} {cell % self.cols}"

    def instance(self) -> object:
        return (self.rows, self.cols, self._plan())  # fields with the same plan are one instance

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Swap a mine with a safe cell that has the same revealed neighbours."""
        if not self._numbers:
            rng.shuffle(self._order)
            return True
        around = neighbours(self.rows, self.cols)
        hidden = self._hidden()
        unseen = set(hidden)
        mines = [cell for cell in hidden if self._numbers[cell] == MINE]
        swaps = [
            (mine, safe)
            for mine in mines
            for safe in hidden
            if self._numbers[safe] != MINE
            and set(around[mine]) - unseen == set(around[safe]) - unseen
        ]
        if swaps:
            mine, safe = swaps[int(rng.integers(len(swaps)))]
            swapped = [safe, *(other for other in mines if other != mine)]
            self._numbers = number_cells(self.rows, self.cols, swapped)
        return bool(swaps)

    def _hidden(self, marks: tuple[int, ...] = (HIDDEN, FLAG)) -> list[int]:
        return [cell for cell, at in enumerate(self._places) if self._text[at] in marks]

    def legal_moves(self) -> Sequence[str]:
        reveals = [f"reveal {self._name(cell)}" for cell in self._hidden((HIDDEN,))]
        return reveals + [f"flag {self._name(cell)}" for cell in self._hidden()]

    def random_move(self, rng: np.random.Generator) -> str:
        hidden = self._hidden((HIDDEN,))  # flagged cells cannot be revealed
        if not hidden:
            return f"flag {self._name(self._hidden()[0])}"
        return f"reveal {self._name(hidden[int(rng.random() * len(hidden))])}"

    def oracle_move(self) -> str:
        cell = self._middle
        if self._numbers:
            safe = (cell for cell in self._hidden() if self._numbers[cell] != MINE)
            cell = min(safe, key=self._numbers.__getitem__)
        verb = "flag" if self._text[self._places[cell]] == FLAG else "reveal"
        return f"{verb} {self._name(cell)}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Reveal what is proved to be safe, else what is least likely to be a mine."""
        mines = int(_MINES.findall(observations[0])[0])
        rows = [row.split() for row in _ROW.findall(observations[-1])]
        shown = "".join(mark for row in rows for mark in row)
        cell = best_cell(len(rows), len(rows[0]), mines, shown)
        verb = "flag" if shown[cell] == "F" else "reveal"
        return f"{verb} {cell // len(rows[0])} {cell % len(rows[0])}"

    def potential(self) -> float:
        return 1 - self._safe_left / (self.rows * self.cols - self.mines)

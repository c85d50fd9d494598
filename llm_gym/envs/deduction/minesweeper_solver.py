"""A Minesweeper solver: cells that are proved to be safe, else the one least likely to be a mine.

Sets of cells are bit masks: bit ``row * cols + column``. A constraint ``(cells, mines)`` says
that exactly ``mines`` of these hidden cells are mines. Each shown number is a constraint, and so
is the number of mines on the whole field.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, reduce
from math import comb
from operator import or_
from typing import NamedTuple

from llm_gym.envs.shared.bit_grid import each

MINE = -1
"""The number of a cell that is a mine."""


@lru_cache(maxsize=32)
def neighbours(rows: int, cols: int) -> tuple[tuple[int, ...], ...]:
    """Return the cells around each cell.

    >>> neighbours(2, 3)[0], neighbours(2, 3)[4]
    ((1, 3, 4), (0, 1, 2, 3, 5))
    """
    return tuple(
        tuple(
            other_row * cols + other_col
            for other_row in range(max(row - 1, 0), min(row + 2, rows))
            for other_col in range(max(col - 1, 0), min(col + 2, cols))
            if (other_row, other_col) != (row, col)
        )
        for row in range(rows)
        for col in range(cols)
    )


@lru_cache(maxsize=32)
def rings(rows: int, cols: int) -> tuple[int, ...]:
    """Return the cells around each cell as masks."""
    return tuple(sum(1 << cell for cell in around) for around in neighbours(rows, cols))


def number_cells(rows: int, cols: int, mines: Sequence[int]) -> list[int]:
    """Return for each cell how many mines are around it, or ``MINE``.

    >>> number_cells(2, 3, [0, 3])
    [-1, 2, 0, -1, 2, 0]
    """
    around, numbers = neighbours(rows, cols), [0] * (rows * cols)
    for mine in mines:
        for cell in around[mine]:
            numbers[cell] += 1
    for mine in mines:
        numbers[mine] = MINE
    return numbers


Constraint = tuple[int, int]
_LAYOUTS = 20_000  # limit on the layouts of mines that are counted for one group of numbers


def deduce(constraints: list[Constraint]) -> tuple[int, int]:
    """Return the cells that are safe and those that are mines, as far as pairs of numbers show.

    A constraint with no mines, or with as many mines as cells, decides its cells. Of two that
    overlap: if A has exactly as many mines more than B as A has cells outside B, then these cells
    are mines and the cells of B outside A are safe.

    >>> deduce([(0b011, 1), (0b111, 2)])  # two cells with a mine, three with two
    (0, 4)
    >>> deduce([(0b0110, 1), (0b0111, 1)])
    (1, 0)
    """
    safe = mines = 0
    found = True
    while found:
        found = False
        known = safe | mines
        left = {(cells & ~known, n - (cells & mines).bit_count()) for cells, n in constraints}
        open_ = sorted((cells, count) for cells, count in left if cells)
        for cells, count in open_:
            if count == 0:
                safe, found = safe | cells, True
            elif count == cells.bit_count():
                mines, found = mines | cells, True
        if found:
            continue
        for cells, count in open_:
            for others, fewer in open_:
                only, other_only = cells & ~others, others & ~cells
                if only.bit_count() == count - fewer and only | other_only:
                    safe, mines, found = safe | other_only, mines | only, True
        constraints = open_
    return safe, mines


class Spread(NamedTuple):
    """The possible layouts of mines next to some shown numbers, counted by mines used."""

    ways: Counter[int]
    dangers: dict[int, Counter[int]]
    """For a mask of interchangeable cells: the sum, over the layouts, of the mines in them."""


def spread(constraints: list[Constraint]) -> Spread | None:
    """Return every layout that satisfies ``constraints``, or None if there are too many to count.

    >>> spread([(0b011, 1), (0b110, 1)]).ways  # either the middle one or both ends
    Counter({1: 1, 2: 1})
    """
    members: Counter[int] = Counter()
    for cell in each(_union(constraints)):
        members[sum(1 << at for at, (cells, _) in enumerate(constraints) if cells >> cell & 1)] += (
            1 << cell
        )
    groups = sorted(members.items())  # cells in the same constraints are interchangeable
    ways: Counter[int] = Counter()
    dangers: dict[int, Counter[int]] = {cells: Counter() for _, cells in groups}
    budget = [_LAYOUTS]

    def place(at: int, need: list[int], room: list[int], put: list[int], weight: int) -> None:
        budget[0] -= 1
        if budget[0] < 0 or any(not 0 <= n <= r for n, r in zip(need, room, strict=True)):
            return
        if at == len(groups):
            used = sum(put)
            ways[used] += weight
            for (_, cells), count in zip(groups, put, strict=True):
                dangers[cells][used] += weight * count
            return
        which, cells = groups[at]
        size = cells.bit_count()
        touched = [which >> index & 1 for index in range(len(need))]
        smaller = [r - size * t for r, t in zip(room, touched, strict=True)]
        for count in range(size + 1):
            needed = [n - count * t for n, t in zip(need, touched, strict=True)]
            place(at + 1, needed, smaller, [*put, count], weight * comb(size, count))

    place(
        0,
        [count for _, count in constraints],
        [cells.bit_count() for cells, _ in constraints],
        [],
        1,
    )
    return None if budget[0] < 0 else Spread(ways, dangers)


def chances(constraints: list[Constraint], hidden: int, mines: int) -> dict[int, float]:
    """Return the probability of a mine for masks of alike cells, given ``mines`` in ``hidden``.

    Every layout that fits is equally likely, so the probability is a ratio of counts. If there are
    too many layouts to count, each cell is judged by a single constraint.

    >>> chances([(0b0011, 1)], 0b1111, 2)  # of the other two cells, one is a mine
    {3: 0.5, 12: 0.5}
    """
    rest = hidden & ~_union(constraints)
    size, spreads = rest.bit_count(), []
    for group in _components(constraints):
        found = spread(group)
        if found is None:
            alone = {cells: count / cells.bit_count() for cells, count in constraints}
            return {**alone, rest: mines / hidden.bit_count()} if rest else alone
        spreads.append(found)

    def layouts(parts: list[Counter[int]]) -> Counter[int]:
        """Count the layouts of the whole field by the mines that they leave for other cells."""
        total = Counter({0: 1})
        for part in parts:
            total = _times(total, part)
        return Counter(
            {
                mines - used: n * comb(size, mines - used)
                for used, n in total.items()
                if used <= mines
            }
        )

    ways = [one.ways for one in spreads]
    fitting = layouts(ways)
    all_ = fitting.total()
    danger = {}
    for at, one in enumerate(spreads):
        for cells, with_mine in one.dangers.items():
            hits = layouts([*ways[:at], with_mine, *ways[at + 1 :]]).total()
            danger[cells] = hits / all_ / cells.bit_count()
    if rest:
        danger[rest] = sum(left * n for left, n in fitting.items()) / all_ / size
    return danger


def best_cell(rows: int, cols: int, mines: int, shown: str) -> int:
    """Return a cell that is certainly safe, else the one least likely to be a mine.

    ``shown`` has one character per cell; any character but a digit means hidden.
    """
    hidden, constraints = read(rows, cols, mines, shown)
    if hidden.bit_count() == len(shown):
        return rows // 2 * cols + cols // 2  # the first cell is safe; most neighbours are there
    safe, known = deduce(constraints)
    if safe:
        return next(each(safe))
    left = [(cells & ~known, count - (cells & known).bit_count()) for cells, count in constraints]
    near = [one for one in left[1:] if one[0]]
    danger = chances(near, *left[0])
    return next(each(min(danger, key=lambda cells: danger[cells])))


def read(rows: int, cols: int, mines: int, shown: str) -> tuple[int, list[Constraint]]:
    """Return the hidden cells of a field and its constraints, that of the whole field first."""
    hidden = sum(1 << at for at, char in enumerate(shown) if not char.isdigit())
    constraints = [(hidden, mines)]
    for char, ring in zip(shown, rings(rows, cols), strict=True):
        if char.isdigit() and ring & hidden:
            constraints.append((ring & hidden, int(char)))
    return hidden, constraints


def can_be_proved(rows: int, cols: int, mines: int, first: int) -> bool:
    """Return whether ``deduce`` alone can clear the field after ``first`` is revealed.

    ``mines`` is the mask of the mines.
    """
    ring = rings(rows, cols)
    hidden, fresh = (1 << rows * cols) - 1, 1 << first
    total = mines.bit_count()
    while fresh:
        while fresh:
            hidden &= ~fresh
            around = 0
            for cell in each(fresh):
                if not ring[cell] & mines:
                    around |= ring[cell]
            fresh = around & hidden
        if hidden == mines:
            return True
        edge = [cell for cell in each(~hidden & ((1 << rows * cols) - 1)) if ring[cell] & hidden]
        constraints = [(ring[cell] & hidden, (ring[cell] & mines).bit_count()) for cell in edge]
        fresh, _ = deduce([(hidden, total), *constraints])
    return False


def _union(constraints: list[Constraint]) -> int:
    return reduce(or_, (cells for cells, _ in constraints), 0)


def _times(left: Counter[int], right: Counter[int]) -> Counter[int]:
    product: Counter[int] = Counter()
    for used, ways in left.items():
        for more, others in right.items():
            product[used + more] += ways * others
    return product


def _components(constraints: list[Constraint]) -> list[list[Constraint]]:
    groups: list[list[Constraint]] = []
    for one in constraints:
        linked = [group for group in groups if any(cells & one[0] for cells, _ in group)]
        groups = [group for group in groups if group not in linked]
        groups.append([constraint for group in linked for constraint in group] + [one])
    return groups

"""Move a tower of disks, one disk at a time and never a larger one onto a smaller one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, progress, reject, setting, win
from llm_gym.reading.moves import Named, apart

PEGS = "ABCDEF"
_STATES = 20_000  # arrangements that the table of distances may have
_WAYS = list(permutations(range(len(PEGS)), 2))
_USUAL = {f"{PEGS[source]} {PEGS[target]}": (source, target) for source, target in _WAYS}
_MOVE = re.compile(
    r"\[?(?:move )?(?:from )?(?:peg )?([A-F]) ?(?:to |,|->)? ?(?:peg )?([A-F])\]?",
    re.IGNORECASE | re.ASCII,
)
_PEG = re.compile(r"^[A-F]:((?: \d)*)$", re.MULTILINE)
_GOAL = re.compile(r"^Goal: peg ([A-F])\.", re.MULTILINE)


_PEG_NAMED = r"(?:(?i:the\s+)?(?i:peg|tower|rod)\s+)?([A-F])(?![\w'])"
_NAMED = (
    re.compile(
        rf"(?<![\w'])(?:(?i:from\s+)?(?i:peg|tower|rod)\s+)?([A-F])"
        rf"(?:\s*(?i:(?:on|in)?to|[-=]>|\u2192|,|-)\s*|\s+){_PEG_NAMED}"
        r"(?!,? (?:and )?[A-F]\b(?! ?(?:[A-F]|to|[-=]>|\u2192)\b))"
    ),
    re.compile(
        rf"\b(?i:from|on|of|off|source)\W{{1,3}}{_PEG_NAMED}[^.;\n]{{1,30}}?"
        rf"\b(?i:(?:on)?to|on|target|destination)\W{{1,3}}{_PEG_NAMED}"
    ),
)


def find_transfers(text: str) -> Iterator[Named]:
    """Yield the moves that a sentence names.

    >>> [move for *_, move in find_transfers("I move disk 1 from peg A to peg C. A, B and C.")]
    ['A C']
    """
    return apart(
        (one.start(), one.end(), f"{one[1]} {one[2]}")
        for pattern in _NAMED
        for one in pattern.finditer(text)
    )


def parse_transfer(move: str) -> tuple[int, int] | None:
    """Return the pegs that ``move`` takes a disk from and to, or None.

    >>> parse_transfer("A C"), parse_transfer("[b, a]"), parse_transfer("move from C to B")
    ((0, 2), (1, 0), (2, 1))
    >>> parse_transfer("A B C"), parse_transfer("A")
    (None, None)
    """
    pegs = _USUAL.get(move)
    if pegs is None and (found := _MOVE.fullmatch(move)):
        source, target = found.groups()
        return PEGS.index(source.upper()), PEGS.index(target.upper())
    return pegs


@lru_cache(maxsize=16)
def distances(disks: int, pegs: int) -> list[int]:
    """Return the fewest moves to the tower on the last peg, from every arrangement.

    An arrangement is a number with one digit in base ``pegs`` per disk, the smallest disk last.

    >>> distances(3, 3)[0]  # all on the first peg
    7
    """
    powers = [pegs**disk for disk in range(disks)]
    away = [-1] * pegs**disks
    away[-1], queue = 0, [pegs**disks - 1]
    for state in queue:  # grows while it is read: breadth first
        free = set(range(pegs))
        for power in powers:
            peg = state // power % pegs
            if peg in free:  # no smaller disk lies on it
                free.discard(peg)
                for target in free:
                    after = state + (target - peg) * power
                    if away[after] < 0:
                        away[after] = away[state] + 1
                        queue.append(after)
    return away


def best_transfer(towers: Sequence[str], goal: int = -1) -> str:
    """Return the first move of a shortest solution with the goal on peg ``goal``.

    A tower lists its disks from the bottom.

    >>> best_transfer(["3 2 1", "", ""]), best_transfer(["3", "2 1", ""])
    ('A C', 'A C')
    >>> best_transfer(["", "", "2 1"], goal=0)
    'C B'
    """
    names = goal_last(PEGS[: len(towers)], goal)
    towers = goal_last(towers, goal)
    disks = [[int(disk) for disk in tower.split()] for tower in towers]
    away = distances(sum(map(len, disks)), len(towers))
    tops = [tower[-1] if tower else 10 for tower in disks]
    here, weights = number_of(towers), [len(towers) ** disk // len(towers) for disk in tops]
    ways = [way for way in permutations(range(len(towers)), 2) if tops[way[0]] < tops[way[1]]]
    source, target = min(ways, key=lambda way: away[here + (way[1] - way[0]) * weights[way[0]]])
    return f"{names[source]} {names[target]}"


def goal_last(row: Sequence[str], goal: int) -> list[str]:
    """Return ``row`` with its goal and last entries swapped: ``distances`` has the goal last.

    >>> goal_last("ABC", 0)
    ['C', 'B', 'A']
    """
    turned = list(row)
    turned[goal], turned[-1] = turned[-1], turned[goal]
    return turned


def number_of(towers: Sequence[str]) -> int:
    """Return the number of an arrangement: its index in ``distances``.

    >>> number_of(["3 2 1", "", ""]), number_of(["", "3", "2 1"])
    (0, 17)
    """
    return sum(
        peg * len(towers) ** (int(disk) - 1)
        for peg, tower in enumerate(towers)
        for disk in tower.split()
    )


class TowerOfHanoiEnv(TextEnv):
    """Move all disks to the peg that is named.

    Description:
        The disks, numbered from 1 (the smallest), lie on pegs named A, B, C and so on. A move
        takes the top disk of a peg to another peg, never onto a smaller disk. The start peg and
        the goal peg are random, so there are few instances (6 with three pegs) and no train and
        test splits.

    Actions:
        The peg to take a disk from and the peg to put it on, such as ``A C``; ``move A to C``
        and ``[A, C]`` also work. A move from an empty peg, onto the same peg or onto a smaller
        disk is unusable.

    Observations:
        One line per peg with its disks from bottom to top, the goal and the turns left.

    Rewards:
        1 when all disks are on the goal, otherwise 0. With ``shaping``, the potential is the
        ``progress`` along the shortest solution.

    Episode end:
        Terminates with all disks on the goal (won) and after ``max_turns`` moves (lost).

    Args:
        disks: Number of disks, 1 to 9.
        pegs: Number of pegs, 3 to 6; ``pegs`` ** ``disks`` must be at most 20,000.
        scattered: Begin with the disks on random pegs instead of all on one.
        max_turns: Moves allowed, at least as many as the hardest start needs.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_transfers)
    is_markov = True
    has_splits = False

    disks: int = setting(4, 1, 9)
    pegs: int = setting(3, 3, len(PEGS))
    scattered: bool = setting(False)
    max_turns: int = setting(20)

    def check_settings(self) -> None:
        if self.pegs**self.disks > _STATES:
            raise ConfigError(
                f"pegs to the power of disks must not pass {_STATES}, got "
                f"pegs={self.pegs} and disks={self.disks}; take fewer disks"
            )
        self.check_range("max_turns", max(distances(self.disks, self.pegs)))

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        disks = round(2 + 5 * difficulty)
        return {"disks": disks, "max_turns": 2**disks + disks}

    def new_game(self, rng: np.random.Generator) -> None:
        # A row is the text of a peg. Its last character is the top disk, or a colon if it is empty.
        # A colon sorts after every digit, just as an empty peg takes every disk.
        self._goal = int(rng.random() * self.pegs)
        rows = goal_last([f"{name}:" for name in PEGS[: self.pegs]], self._goal)
        # The last number is the solved arrangement; a tower on one peg is a multiple of 1...1.
        step = 1 if self.scattered else (self.pegs**self.disks - 1) // (self.pegs - 1)
        self._start = step * int(rng.random() * ((self.pegs**self.disks - 1) // step))
        for disk in range(self.disks, 0, -1):
            rows[self._start // self.pegs ** (disk - 1) % self.pegs] += f" {disk}"
        self._rows = goal_last(rows, self._goal)

    def rules_text(self) -> str:
        names, last = PEGS[: self.pegs - 1], PEGS[self.pegs - 1]
        return (
            f"There are {self.pegs} pegs, {', '.join(names)} and {last}, and {self.disks} "
            f"disk{'s' * (self.disks != 1)}; disk 1 is the smallest. Each peg lists its disks from "
            "bottom to top. A move takes the top disk of one peg to another peg, but never onto "
            f"a smaller disk. Write two pegs: the one to take from, then the other. Bring all "
            "disks to the peg that I name as the goal."
        )

    def example_moves(self) -> Sequence[str]:
        return ["A B", "B A", "A C"]

    def describe(self) -> str:
        rows = "\n".join(self._rows)
        return f"{rows}\nGoal: peg {PEGS[self._goal]}. Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        way = parse_transfer(move)
        if way is None:
            return reject("Your move must be two pegs, such as A C.")
        source, target = way
        rows = self._rows
        if source >= self.pegs or target >= self.pegs or source == target:
            return reject(f"A move needs two different pegs from A to {PEGS[self.pegs - 1]}.")
        disk, under = rows[source][-1], rows[target][-1]
        if disk == ":":
            return reject(f"Peg {PEGS[source]} is empty.")
        if disk > under:
            return reject(f"Disk {disk} may not lie on disk {under}, which is smaller.")
        rows[source] = rows[source][:-2]
        rows[target] = onto = f"{rows[target]} {disk}"
        if target == self._goal and onto.count(" ") == self.disks:
            return win(f"All disks are on peg {PEGS[target]}: solved.")
        return go_on(f"You move disk {disk} from {PEGS[source]} to {PEGS[target]}.")

    def instance(self) -> object:
        return (self.disks, self.pegs, self._start, self._goal)

    def legal_moves(self) -> Sequence[str]:
        tops = [row[-1] for row in self._rows]
        return [
            f"{PEGS[source]} {PEGS[target]}"
            for source, disk in enumerate(tops)
            for target, under in enumerate(tops)
            if disk < under
        ]

    def oracle_move(self) -> str:
        return best_transfer([row[2:] for row in self._rows], self._goal)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Look up the pegs of the observation in the table of distances."""
        goal = _GOAL.findall(observations[-1])[0]
        return best_transfer(_PEG.findall(observations[-1]), PEGS.index(goal))

    def potential(self) -> float:
        away = distances(self.disks, self.pegs)
        towers = goal_last([row[2:] for row in self._rows], self._goal)
        return progress(away[number_of(towers)], away[self._start])

"""``Reader`` of an action space, and the reader of arrays of numbers.

A reader converts the text of a model to an action, and an action to text. Its time is linear in the
length of the text. It refuses unusable text with ``Unusable``, whose message is for the player.
``action_readers.make_reader`` finds the reader of a space.
"""

import contextlib
import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from llm_gym.wrappers.as_text.phrasebooks.observations import number

FEW = 256
"""A space with more actions than this is not listed action by action."""


class Unusable(ValueError):
    """A text that means no action; the message tells the player why."""


class Reader(ABC):
    """Reads and writes the actions of one space."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return the action that ``text`` means; raise ``Unusable`` if it means none."""

    @abstractmethod
    def write(self, action: Any) -> str:
        """Return the text that ``read`` reads as ``action``."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """Return a random action."""

    @abstractmethod
    def how(self) -> str:
        """Return how an action is written, as words that follow "Your move is"."""

    @abstractmethod
    def pattern(self) -> str:
        """Return a regex that every text of ``write`` matches in full."""

    def moves(self) -> Sequence[str] | None:
        """Return every action as text, or None where they are too many."""
        return None

    def aliases(self) -> Mapping[str, str]:
        """Return other words for moves, each with the move as ``write`` writes it."""
        return {}

    def allowed(self, mask: Any) -> Sequence[str] | None:
        """Return the actions that an action mask allows, or None where it cannot be read."""
        return None

    def fallback(self) -> Any:
        """Return the action that does as little as possible, or None where none is known."""
        return None

    def examples(self) -> Sequence[str]:
        moves, rng = self.moves(), np.random.default_rng(0)
        return moves[:16] if moves else [self.write(self.draw(rng)) for _ in range(4)]


_NUMBER = r"[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,3})?"
_IS_NUMBER = re.compile(_NUMBER)
_WHOLE = r"-?[0-9]{1,20}"
_IS_WHOLE = re.compile(r"[-+]?[0-9]+")
_GAPS = str.maketrans("[](),;", "      ")
_NAMED = 8  # so many numbers are told one by one
_Array = npt.NDArray[Any]


def parse_numbers(text: str, most: int) -> list[float]:
    """Return the numbers in ``text``, which may stand in brackets and between commas.

    >>> parse_numbers("[0.5, -1] 2e1", 9)
    [0.5, -1, 20.0]
    """
    words = text.translate(_GAPS).split()
    if len(words) > most:
        raise Unusable(f"Your move must have {_count(most)}, yours has {len(words)}.")
    for word in words:
        if not _IS_NUMBER.fullmatch(word):
            raise Unusable(f"Your move must be in plain numbers; {word[:20]!r} is not a number.")
    # A float of 64 bits would round a whole number of 18 digits.
    return [int(word) if _IS_WHOLE.fullmatch(word) else float(word) for word in words]


class NumberReader(Reader):
    """Reads an array as numbers in a row.

    >>> NumberReader(spaces.Box(-1, 1, (2,))).read("0.5 -1")
    array([ 0.5, -1. ], dtype=float32)
    >>> NumberReader(spaces.MultiDiscrete([2, 3])).how()
    '2 whole numbers with a space between, the 1st from 0 to 1, the 2nd from 0 to 2'
    """

    def __init__(self, space: Any, names: Sequence[str] | None = None) -> None:
        self.dtype, self.shape = np.dtype(space.dtype), space.shape
        self.whole = not np.issubdtype(self.dtype, np.floating)
        self.low, self.high = _bounds(space, int if self.whole else float)
        self.size = len(self.low)
        self.names = names if names is not None and len(names) == self.size else None
        self._is_choices = not isinstance(space, spaces.Box)
        self._moves: list[str] | None = None
        ranges = list(zip(self.low, self.high, strict=True))
        if self._is_choices and math.prod(high - low + 1 for low, high in ranges) <= FEW:
            every = itertools.product(*(range(int(low), int(high) + 1) for low, high in ranges))
            self._moves = [" ".join(map(str, row)) for row in every]

    def read(self, text: str) -> _Array:
        return self._checked(parse_numbers(text, self.size))

    def _checked(self, numbers: list[float]) -> _Array:
        if len(numbers) != self.size:
            raise Unusable(f"Your move must have {_count(self.size)}, yours has {len(numbers)}.")
        if self.whole:
            if any(x % 1 for x in numbers):  # also of what is infinite
                raise Unusable("Your move must have whole numbers only.")
            numbers = [int(x) for x in numbers]
        else:
            with np.errstate(over="ignore"):  # what becomes infinite is refused below
                numbers = np.array(numbers).astype(self.dtype).tolist()
        for at, x in enumerate(numbers):
            if not (self.low[at] <= x <= self.high[at] and math.isfinite(x)):
                raise Unusable(f"In your move, {self._name(at)} must be {self._range(at)}.")
        return np.array(numbers, dtype=self.dtype).reshape(self.shape)

    def write(self, action: Any) -> str:
        return " ".join(map(self._digits, np.asarray(action).ravel().tolist()))

    def _digits(self, value: float) -> str:
        if self.whole:
            return str(int(value))
        # As many digits as it takes to read the same number again.
        short, full = f"{value:.4g}", f"{value:.{17 if self.dtype.itemsize > 4 else 9}g}"
        return short if float(self.dtype.type(short)) == value else full

    def draw(self, rng: np.random.Generator) -> _Array:
        drawn = []
        for low, high in zip(self.low, self.high, strict=True):
            least = low if math.isfinite(low) else min(high, 0.0) - 1.0
            most = high if math.isfinite(high) else max(least, 0.0) + 1.0
            if self.whole:
                value: float = least + int(rng.random() * (most - least + 1))
            else:
                # Halves, because a range between the largest floats has no finite width.
                value = 2 * (least / 2 + rng.random() * (most / 2 - least / 2))
            drawn.append(min(max(value, least), most))
        return np.array(drawn, dtype=self.dtype).reshape(self.shape)

    def moves(self) -> Sequence[str] | None:
        return self._moves

    def fallback(self) -> _Array:
        """Return zeros, or what is next to them where 0 is outside the range."""
        nearest = [min(max(0, low), high) for low, high in zip(self.low, self.high, strict=True)]
        return np.array(nearest, dtype=self.dtype).reshape(self.shape)

    def allowed(self, mask: Any) -> Sequence[str] | None:
        if self._moves is None or not isinstance(mask, (tuple, list)) or len(mask) != self.size:
            return None
        choices = []
        for part, low, high in zip(mask, self.low, self.high, strict=True):
            if (at := allowed_at(part, high - low + 1)) is None:
                return None
            choices.append([str(low + value) for value in at])
        return [" ".join(row) for row in itertools.product(*choices)]

    def examples(self) -> Sequence[str]:
        if self._moves or self.whole:
            return super().examples()
        rng, short = np.random.default_rng(0), []
        for _ in range(16):
            # Few digits are easier to read, and may fall outside a narrow range.
            text = " ".join(f"{x:.2g}" for x in self.draw(rng).ravel().tolist())
            with contextlib.suppress(Unusable):
                self.read(text)
                short.append(text)
        return short[:4] or super().examples()

    def how(self) -> str:
        kind = "whole number" if self.whole else "number"
        if self.size == 1:
            name = f" ({self.names[0]})" if self.names else ""
            return f"one {kind}{name} {self._range(0)}"
        head = f"{self.size} {kind}s with a space between"
        ranges = [self._range(at) for at in range(min(self.size, _NAMED + 1))]
        if self.size <= _NAMED and (self.names or len(set(ranges)) > 1):
            each = [f"{self._name(at)} {limits}" for at, limits in enumerate(ranges)]
            return f"{head}, {', '.join(each)}"
        same = len({*zip(self.low, self.high, strict=True)}) == 1
        return f"{head}, each {ranges[0]}" if same else head

    def _name(self, at: int) -> str:
        if self.names:
            return self.names[at]
        ending = {1: "st", 2: "nd", 3: "rd"}.get((at + 1) % 10, "th")
        return f"the {at + 1}{'th' if (at + 1) // 10 % 10 == 1 else ending}"

    def _range(self, at: int) -> str:
        low, high = self.low[at], self.high[at]
        if math.isfinite(low) and math.isfinite(high):
            return f"from {_bound(low)} to {_bound(high)}"
        if math.isfinite(low):
            return f"of at least {_bound(low)}"
        return f"of at most {_bound(high)}" if math.isfinite(high) else "of any size"

    def pattern(self, gap: str = " ") -> str:
        one = _WHOLE if self.whole else _NUMBER
        return f"{one}(?:{gap}{one}){{{self.size - 1}}}" if self.size else ""


def _bounds(space: Any, kind: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    else:
        low, high = np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
    return [kind(x) for x in low.ravel()], [kind(x) for x in high.ravel()]


def allowed_at(mask: Any, count: int) -> list[int] | None:
    """Return the places in ``mask`` that are not 0; None if it is no mask of ``count`` choices.

    >>> allowed_at([0, 1, 1], 3), allowed_at([0, 1], 3), allowed_at([[1], [0, 1]], 2)
    ([1, 2], None, None)
    """
    try:
        flags = np.asarray(mask)
    except ValueError:  # lists of different lengths
        return None
    if flags.shape != (count,) or flags.dtype.kind not in "biuf":
        return None
    at: list[int] = np.flatnonzero(flags).tolist()
    return at


def _bound(value: float) -> str:
    return str(value) if isinstance(value, int) else number(value)


def _count(size: int) -> str:
    return f"{size} number{'s' * (size != 1)}"

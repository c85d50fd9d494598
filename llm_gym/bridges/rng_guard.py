"""``GlobalRngGuard``: isolates the global random generators and output of foreign code.

Most suites use the global generators: ``random``, ``numpy.random`` and torch's. Each of their
environments gets its own generator states, which are active only while it is called. So seeds
determine episodes, and environments disturb neither each other nor the surrounding program.

``getstate`` and ``setstate`` make a Python number of each of the 624 words of a state: 80 µs for
``random`` and 900 for numpy, at every step. Copying the memory behind them takes 0.2 µs. A trial
proves where the memory lies; where it does not, ``getstate`` is used.
"""

import ctypes
import io
import random  # noqa: TID251 - the generator that is isolated
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

_LOCK = threading.RLock()  # the generators belong to the whole process


class _ByFunctions:
    """A slot of a state whose ``raw`` is read and written by its library's own functions."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
        self._read, self._write = read, write

    @property
    def raw(self) -> Any:
        return self._read()

    @raw.setter
    def raw(self, state: Any) -> None:
        self._write(state)


def _memory(address: int, size: int) -> Any:
    return (ctypes.c_char * size).from_address(address)


def python_slots(generator: random.Random, quick: bool = True) -> list[Any]:
    """Return the memory with the state of ``generator``; a trial with another one proves it."""
    trial = random.Random(1)
    if not (quick and _replays([_words_of_python(trial)], trial.random)):
        return [_ByFunctions(generator.getstate, generator.setstate)]
    spare = _ByFunctions(  # normal numbers are drawn in pairs
        lambda: generator.gauss_next,  # type: ignore[attr-defined]
        lambda value: setattr(generator, "gauss_next", value),
    )
    return [_words_of_python(generator), spare]


def numpy_slots(state: np.random.RandomState, quick: bool = True) -> list[Any]:
    """Return the memory with the state of ``state``; a trial with another one proves it."""
    trial = np.random.RandomState(1)
    at = _spare_of_numpy(trial)
    if quick and at is not None:
        slots = [_words_of_numpy(trial), _memory(id(trial) + at, 16)]
        if _replays(slots, trial.standard_normal):
            return [_words_of_numpy(state), _memory(id(state) + at, 16)]
    return [_ByFunctions(lambda: state.get_state(legacy=False), state.set_state)]


def _words_of_python(generator: random.Random) -> Any:
    """Return the words of a ``random.Random``: all of its C object but the head."""
    head = object.__basicsize__
    base = next(kind for kind in type(generator).__mro__ if kind.__module__ == "_random")
    return _memory(id(generator) + head, base.__basicsize__ - head)


def _words_of_numpy(state: np.random.RandomState) -> Any:
    bits = state._bit_generator
    return _memory(bits.ctypes.state_address, 625 * 4)


def _spare_of_numpy(state: np.random.RandomState) -> int | None:
    """Return where in a ``RandomState`` the second of a pair of normal numbers lies.

    A flag and the number are side by side, so the number is looked for.
    """
    state.standard_normal()
    kept: Any = state.get_state(legacy=False)
    at = ctypes.string_at(id(state), type(state).__basicsize__).find(
        struct.pack("d", kept["gauss"])
    )
    return at - 8 if at >= 8 and kept["has_gauss"] else None


def _replays(slots: list[Any], draw: Callable[[], float]) -> bool:
    """Return whether ``draw`` gives the same numbers again after ``slots`` are restored."""
    before = [slot.raw for slot in slots]
    first = [draw() for _ in range(3)]
    for slot, state in zip(slots, before, strict=True):
        slot.raw = state
    return first == [draw() for _ in range(3)]


@lru_cache(maxsize=1)
def _find_slots(bits: object) -> list[Any]:
    # The cache holds ``bits``, so that its memory stays.
    python: random.Random = random._inst
    whole: np.random.RandomState = np.random.mtrand._rand
    return [*python_slots(python), *numpy_slots(whole)]


def _slots() -> list[Any]:
    """Return the slots of all generators; they are found anew if numpy's generator is replaced.

    Torch's is the last, if torch has been imported.
    """
    slots = _find_slots(np.random.get_bit_generator())  # type: ignore[attr-defined]
    torch = _torch()
    return slots if torch is None else [*slots, _ByFunctions(torch.get_state, torch.set_state)]


class _NullWriter(io.TextIOBase):
    """Discards what is printed."""

    def write(self, text: str) -> int:
        return len(text)


_NULL_WRITER = _NullWriter()


class GlobalRngGuard:
    """Gives one foreign environment its own random states and discards its output.

    Use it as a context manager, in one thread at a time.

    >>> theirs = GlobalRngGuard()
    >>> drawn = []
    >>> for _ in range(2):
    ...     theirs.seed(7)
    ...     with theirs:
    ...         drawn.append(random.random())
    >>> drawn[0] == drawn[1]
    True
    """

    def __init__(self) -> None:
        self._seed = 0
        self._own: list[Any] = []
        self._callers: list[tuple[list[Any], Any]] = []

    def seed(self, seed: int) -> None:
        """Use the states derived from ``seed`` from the next entry on."""
        self._seed, self._own = seed, []

    def __enter__(self) -> None:
        _LOCK.acquire()
        slots, torch = _slots(), _torch()
        self._callers.append(([slot.raw for slot in slots], sys.stdout))
        sys.stdout = _NULL_WRITER
        if not self._own:
            random.seed(self._seed)
            np.random.seed(self._seed % 2**32)  # noqa: NPY002 - what foreign code uses
        if torch is not None and len(self._own) < len(slots):
            torch.manual_seed(self._seed)
        for slot, state in zip(slots, self._own, strict=False):
            slot.raw = state

    def __exit__(self, *_: object) -> None:
        try:
            callers, sys.stdout = self._callers.pop()
            slots = _slots()[: len(callers)]  # torch may have been imported in between
            self._own = [slot.raw for slot in slots]
            for slot, state in zip(slots, callers, strict=True):
                slot.raw = state
        finally:
            _LOCK.release()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Restore the caller's state within this block, to call our own code."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


def _torch() -> Any:
    return getattr(sys.modules.get("torch"), "default_generator", None)

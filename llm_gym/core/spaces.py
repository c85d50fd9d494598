"""``AnyText``: the space of all strings.

``gymnasium.spaces.Text`` lists its characters one by one: a space, a newline or an accent falls
outside the default, checking costs a set lookup per character, and the default ``AsyncVectorEnv``
returns stale memory for it. ``AnyText`` fixes all three. It is a subclass, so code that converts
``Text`` (TorchRL, Gymnasium's batching) converts ``AnyText``, too.
"""

import copy
import ctypes
import multiprocessing
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import utils

from llm_gym.core.errors import ConfigError

# What ``sample`` draws from when there are no examples: enough scripts to shake an environment.
_SAMPLE_CHARS = string.printable + "éßñ✓→漢字🙂"
_SAMPLE_LENGTH = 64


class AnyText(spaces.Text):
    r"""Every string of at most ``max_length`` characters, in any script.

    Args:
        max_length: Longest string in the space, in characters.
        examples: Strings that ``sample`` draws from, so that the usual
            ``env.step(env.action_space.sample())`` plays something like the game. They do not
            restrict the space. Without them ``sample`` returns random text.
        seed: Seed of ``sample``.

    >>> "naïve ✓\n" in AnyText(16)
    True
    >>> AnyText(16, examples=["go north", "look"], seed=1).sample() in {"go north", "look"}
    True
    """

    def __init__(
        self,
        max_length: int,
        *,
        examples: Sequence[str] = (),
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if max_length < 0:
            raise ConfigError(f"max_length must not be negative, got {max_length}")
        super().__init__(max_length, min_length=0, charset=_SAMPLE_CHARS, seed=seed)
        self.examples = tuple(examples)

    def __deepcopy__(self, memo: dict[int, Any]) -> "AnyText":
        """Share the constant character tables among the rows of a vector environment."""
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random, memo)
        return twin

    @property
    def is_np_flattenable(self) -> bool:
        """Text of any script has no fixed-size array form."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string of at most ``max_length`` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return one of the examples, or up to 64 random characters when there are none."""
        if mask is not None or probability is not None:
            raise ConfigError("AnyText.sample takes no mask or probability; choose from a list")
        if self.examples:
            return self.examples[int(self.np_random.integers(len(self.examples)))]
        length = self.np_random.integers(0, min(self.max_length, _SAMPLE_LENGTH), endpoint=True)
        return "".join(self.np_random.choice(list(_SAMPLE_CHARS), size=length))

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and other.max_length == self.max_length

    __hash__ = None  # type: ignore[assignment]  # mutable RNG inside, like every Space


class _SharedTexts(Sequence[str]):
    """The last text of each environment, in memory that processes share.

    Gymnasium reads shared memory only once and then copies the result at every step, so plain texts
    would stay the first ones for ever. A copy of this object holds the current texts.
    """

    def __init__(self, memory: Any, count: int) -> None:
        cells = np.frombuffer(memory.get_obj(), np.uint8).reshape(count, -1)
        self._sizes, self._texts = cells[:, :4].view(np.int32), cells[:, 4:]

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, at: Any) -> Any:
        return self._texts[at, : self._sizes[at, 0]].tobytes().decode("utf-32-le", "surrogatepass")

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)

    def write(self, at: int, text: str) -> None:
        written = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint8)
        self._texts[at, : len(written)], self._sizes[at, 0] = written, len(written)


@utils.create_shared_memory.register(AnyText)
def _share(space: AnyText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array(ctypes.c_uint8, n * (4 + 4 * space.max_length))


@utils.read_from_shared_memory.register(AnyText)
def _read_shared(space: AnyText, shared_memory: Any, n: int = 1) -> Any:
    return _SharedTexts(shared_memory, n)


@utils.write_to_shared_memory.register(AnyText)
def _write_shared(space: AnyText, index: int, value: str, shared_memory: Any) -> None:
    count = len(shared_memory) // (4 + 4 * space.max_length)
    _SharedTexts(shared_memory, count).write(index, value)

"""The one string space.

``gymnasium.spaces.Text`` lists its characters one by one: a space, a newline or an accent falls
outside the default, checking costs a set lookup per character, and the default
``AsyncVectorEnv`` returns stale memory for it. ``AnyText`` is a subclass, so whatever converts
``Text`` (TorchRL, Gymnasium's batching) converts it too, and it fixes all three.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_shared_memory

from llm_gym.errors import ConfigError

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

    @property
    def is_np_flattenable(self) -> bool:
        """Text of any script has no fixed-size array form."""
        return False

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string that fits; the characters are not looked at."""
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


@create_shared_memory.register(AnyText)
def _refuse_shared_memory(space: AnyText, n: int = 1, ctx: Any = None) -> Any:
    # Gymnasium decodes a shared Text buffer once, at construction, and returns that same text
    # for ever after; failing here is the only honest answer.
    raise ConfigError(
        "text observations cannot live in shared memory; pass shared_memory=False, as in "
        'gym.make_vec(id, num_envs=4, vectorization_mode="async", '
        'vector_kwargs={"shared_memory": False}), or use llm_gym.make_vec(id, 4, workers=2)'
    )

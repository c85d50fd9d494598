"""What changes over a run: the learning rate and the difficulty.

Both are functions of a few numbers, so that a resumed run goes on where it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llm_gym.errors import ConfigError


def learning_rate_factor(kind: str, iteration: int, total: int, warmup: int) -> float:
    """Return the factor on the learning rate in ``iteration`` of ``total``.

    >>> [learning_rate_factor("linear", i, 4, 0) for i in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    >>> [learning_rate_factor("constant", i, 3, 1) for i in range(3)]
    [0.5, 1.0, 1.0]
    """
    if iteration < warmup:
        return (iteration + 1) / (warmup + 1)
    if kind == "constant":
        return 1.0
    share = (iteration - warmup) / max(total - warmup, 1)
    if kind == "linear":
        return max(0.0, 1.0 - share)
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
    raise ConfigError(f"lr_schedule must be constant, linear or cosine, got {kind!r}")


@dataclass(slots=True)
class Curriculum:
    """Raises the difficulty when a batch is mostly won, and lowers it when it is mostly lost.

    Args:
        target: Success that is neither too easy nor too hard.
        step: How far one batch can move the difficulty.
        difficulty: Where to begin.
    """

    target: float = 0.7
    step: float = 0.05
    difficulty: float = 0.0

    def update(self, success: float) -> float:
        """Return the difficulty of the next batch after one with this success.

        >>> Curriculum(target=0.5, step=0.1).update(0.9)
        0.1
        """
        move = (
            self.step if success > self.target else -self.step if success < self.target / 2 else 0.0
        )
        self.difficulty = min(1.0, max(0.0, self.difficulty + move))
        return self.difficulty

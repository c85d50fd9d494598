"""Graders of somebody's own: a function of reply and answer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llm_gym.data.graders.base import Grader
from llm_gym.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Function(Grader):
    """A function of reply and answer that returns True, False or a score from 0 to 1."""

    function: Callable[[str, Any], float]
    asks = "Answer the question."
    examples = ("your answer",)
    trusted = False

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind("", "")
        except TypeError as error:
            raise ConfigError(f"a grader takes a reply and an answer, or a row: {error}") from error
        except ValueError:  # a builtin that does not say what it takes
            return

    @property
    def takes_row(self) -> bool:
        """Whether the function's second argument is called ``row``, and gets the whole row."""
        try:
            return list(inspect.signature(self.function).parameters)[1:2] == ["row"]
        except ValueError:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and other.function is self.function

    def __hash__(self) -> int:
        return id(self.function)

    def key(self, answer: object, choices: Sequence[str]) -> object:
        return answer

    def value(self, reply: str, choices: Sequence[str]) -> str:
        return reply

    def score(self, value: str, key: object) -> float:
        given: Any = self.function(value, key)
        try:
            score = math.nan if isinstance(given, str) else float(given)
        except (TypeError, ValueError):
            score = math.nan
        if not 0.0 <= score <= 1.0:
            name = getattr(self.function, "__name__", "the function")
            raise ConfigError(f"a grader returns a score from 0 to 1, {name} gave {given!r:.60}")
        return score

"""Graders: is this reply the answer?

A grader turns the gold answer into a *key* once, turns a reply into a *value* (None where it
cannot be used: the player is told so), and compares the two. It is pure, it takes time linear in
the reply, and it never pays a reply for merely mentioning the answer among others.

``grader="number"`` names one with its usual settings; ``Number(tolerance=0.01)`` is one with
others; a function ``(reply, answer)`` that returns a score from 0 to 1 is one too, and so is
``(reply, row)``, which gets the whole row as the data set has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_gym.data.graders.base import Grader, as_text
from llm_gym.data.graders.choice import LETTERS, Choice
from llm_gym.data.graders.function import Function
from llm_gym.data.graders.number import Number
from llm_gym.data.graders.texts import Contains, Exact, Regex
from llm_gym.errors import ConfigError

__all__ = [
    "GRADERS",
    "LETTERS",
    "Choice",
    "Contains",
    "Exact",
    "Function",
    "Grader",
    "Number",
    "Regex",
    "as_text",
    "get_grader",
]

GRADERS: dict[str, Grader] = {
    "exact": Exact(),
    "number": Number(),
    "choice": Choice(),
    "contains": Contains(),
    "regex": Regex(),
}


def get_grader(grader: str | Grader | Callable[[str, Any], float]) -> Grader:
    """Return the grader that a setting stands for: a name, a grader or a function."""
    if isinstance(grader, Grader):
        return grader
    if isinstance(grader, str) and grader in GRADERS:
        return GRADERS[grader]
    if callable(grader):
        return Function(grader)
    names = ", ".join(GRADERS)
    raise ConfigError(f"grader must be one of {names}, or a function, got {grader!r:.60}")

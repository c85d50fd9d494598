"""Data sets as environments: readers, graders, splits and order.

``llm_gym.envs.questions.dataset`` is the environment; this is what it is made of. ``graders`` is
the part that users touch: ``gym.make("llm_gym/Dataset-v0", dataset="my.jsonl", grader="number")``.
"""

from llm_gym.datasets.graders import (
    GRADERS,
    ChoiceGrader,
    ContainsGrader,
    ExactGrader,
    Grader,
    NumberGrader,
    get_grader,
)

__all__ = [
    "GRADERS", "ChoiceGrader", "ContainsGrader", "ExactGrader", "Grader", "NumberGrader",
    "get_grader",
]  # fmt: skip

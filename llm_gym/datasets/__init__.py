"""Data sets as environments: readers, graders, splits and order.

``llm_gym.envs.questions.dataset`` is the environment; this package has its parts. Users need only
``graders``: ``gym.make("llm_gym/Dataset-v0", dataset="my.jsonl", grader="number")``.
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

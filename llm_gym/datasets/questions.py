"""The questions that come with llm_gym, so that ``llm_gym/Dataset-v0`` works without a file.

``questions.jsonl`` has 50 of each form: a sentence with gaps, and the function of what is in them
that answers it.
"""

import re
from collections.abc import Callable
from importlib import resources

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FORMS: dict[str, Callable[..., str]] = {
    r"What is (\d+) plus (\d+)\?": lambda a, b: str(int(a) + int(b)),
    r"What is (\d+) minus (\d+)\?": lambda a, b: str(int(a) - int(b)),
    r"What is (\d+) times (\d+)\?": lambda a, b: str(int(a) * int(b)),
    r"\w+ has (\d+) (\w+) and gives (\d+) of them away\. How many \2 are left\?": (
        lambda a, thing, b: str(int(a) - int(b))
    ),
    r"\w+ buys (\d+) boxes with (\d+) (\w+) in each\. How many \3 are there in all\?": (
        lambda a, b, thing: str(int(a) * int(b))
    ),
    r"What is left over when (\d+) is divided by (\d+)\?": lambda a, b: str(int(a) % int(b)),
    r"How many letters has the word (\w+)\?": lambda word: str(len(word)),
    r"What is the word (\w+) spelled backwards\?": lambda word: word[::-1],
    r"What are the first three letters of the word (\w+)\?": lambda word: word[:3],
    r"Which day of the week comes (\d+) days after (\w+)\?": (
        lambda days, day: _DAYS[(_DAYS.index(day) + int(days)) % 7]
    ),
}


def answer(question: str) -> str | None:
    """Return the answer to one of the questions, or None if it is another question.

    >>> answer("What is 30 plus 12?"), answer("What is love?")
    ('42', None)
    """
    for form, solve in _FORMS.items():
        if found := re.fullmatch(form, question):
            try:
                return solve(*found.groups())
            except (ValueError, ZeroDivisionError):  # no number, or no day: another question
                return None
    return None


def path() -> str:
    """Return where ``questions.jsonl`` is."""
    return str(resources.files("llm_gym.datasets").joinpath("questions.jsonl"))

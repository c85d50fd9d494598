"""The questions that come with llm_gym, so that ``llm_gym/Dataset-v0`` works without a file.

``questions.jsonl`` has 50 of each form: a sentence with gaps, and the function that answers it.
The solver reads the filled-in sentence back.
"""

import re
from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Form(NamedTuple):
    """A question with gaps, and how it is answered once they are filled."""

    sentence: str
    answer: Callable[..., str]

    def read(self, question: str) -> dict[str, str] | None:
        """Return what is in the gaps of ``question``, or None if it is another question."""
        pattern, seen = re.escape(self.sentence), set[str]()
        for gap in re.findall(r"\{(\w+)\}", self.sentence):
            group = rf"(?P={gap})" if gap in seen else rf"(?P<{gap}>\w{{1,20}})"
            pattern = pattern.replace(rf"\{{{gap}\}}", group, 1)
            seen.add(gap)
        found = re.fullmatch(pattern, question)
        return found.groupdict() if found else None


FORMS = (
    Form("What is {a} plus {c}?", lambda a, c: str(int(a) + int(c))),
    Form("What is {a} minus {c}?", lambda a, c: str(int(a) - int(c))),
    Form("What is {a} times {b}?", lambda a, b: str(int(a) * int(b))),
    Form(
        "{name} has {a} {thing} and gives {b} of them away. How many {thing} are left?",
        lambda name, a, thing, b: str(int(a) - int(b)),
    ),
    Form(
        "{name} buys {b} boxes with {a} {thing} in each. How many {thing} are there in all?",
        lambda name, b, a, thing: str(int(a) * int(b)),
    ),
    Form("What is left over when {a} is divided by {b}?", lambda a, b: str(int(a) % int(b))),
    Form("How many letters has the word {word}?", lambda word: str(len(word))),
    Form("What is the word {word} spelled backwards?", lambda word: word[::-1]),
    Form("What are the first three letters of the word {word}?", lambda word: word[:3]),
    Form(
        "Which day of the week comes {b} days after {day}?",
        lambda b, day: _DAYS[(_DAYS.index(day) + int(b)) % 7],
    ),
)


def answer(question: str) -> str | None:
    """Return the answer to one of the questions, or None if it is another question.

    >>> answer("What is 30 plus 12?"), answer("What is love?")
    ('42', None)
    """
    for form in FORMS:
        gaps = form.read(question)
        if gaps is not None:
            try:
                return form.answer(**gaps)
            except (ValueError, ZeroDivisionError):  # words where numbers belong: not one of ours
                return None
    return None


def path() -> str:
    """Return where ``questions.jsonl`` is."""
    return str(resources.files("llm_gym.datasets").joinpath("questions.jsonl"))

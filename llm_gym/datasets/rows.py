"""One row of a data set: a prompt and its accepted answers.

``read_row`` takes a row as it was stored and raises ``ValueError`` with a sentence that says what
is wrong with it; the reader of the file adds the line.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from llm_gym.core import splits
from llm_gym.datasets.graders import LETTERS, as_text

SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "validation", "valid", "val"), "dev"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Other common names of the three splits."""


class ColumnNames(NamedTuple):
    """The columns to read; None for a column that is not used."""

    prompt: str = "prompt"
    answer: str | None = "answer"
    choices: str | None = None
    split: str | None = "split"


class DatasetRow(NamedTuple):
    """A question with its accepted answers."""

    prompt: str
    system: str = ""
    """System message of the row."""
    answers: tuple[object, ...] = ()
    """Accepted answers; empty if the row is not graded."""
    choices: tuple[str, ...] = ()
    split: str | None = None
    """Split named in the row."""

    def question_id(self) -> str:
        """Return 16 hex digits that identify the question, ignoring white space."""
        return splits.digest(" ".join(f"{self.system} {self.prompt}".split()))

    def row_id(self) -> str:
        """Return 16 hex digits that identify question and answers.

        The first eight, which decide the split, come from the question alone: the same question
        with another answer is never in another split.
        """
        question_id = self.question_id()
        return question_id[:8] + splits.digest(f"{question_id} {self.answers!r}")[:8]


def read_row(data: Any, columns: ColumnNames, *, raw_answers: bool = False) -> DatasetRow:
    """Return the row that ``data`` holds. ``ValueError`` says what is wrong with it.

    A row that is only a text is a prompt. With ``raw_answers`` an answer may be any value, for a
    custom grader.

    >>> read_row({"prompt": "2 + 2?", "answer": 4}, ColumnNames())
    DatasetRow(prompt='2 + 2?', system='', answers=(4,), choices=(), split=None)
    """
    if isinstance(data, str):
        data = {columns.prompt: data}
    if not isinstance(data, Mapping):
        raise ValueError(f"a row must have named columns, got {type(data).__name__}")
    prompt = _column(data, columns.prompt, "prompt")
    system, text, reply = read_prompt(prompt)
    answers: tuple[object, ...] = ()
    if reply is not None:
        if columns.answer is None or columns.answer in data:
            raise ValueError(f"the last message of {columns.prompt!r} must not be the assistant's")
        answers = (reply,)
    elif columns.answer is not None:
        answer = _column(data, columns.answer, "answer")
        answers = (answer,) if raw_answers else read_answers(answer)
    choices = read_choices(_plain(data.get(columns.choices))) if columns.choices else ()
    if choices:
        listed = (f"{LETTERS[at]}) {choice}" for at, choice in enumerate(choices))
        text = "\n".join((text, *listed))
    if not text.strip():
        raise ValueError(f"{columns.prompt!r} is empty")
    return DatasetRow(text, system, answers, choices, read_split(data, columns.split))


def _column(data: Mapping[Any, Any], name: str, setting: str) -> Any:
    if name not in data:
        there = ", ".join(repr(key) for key in data)
        raise ValueError(
            f"the row has no column {name!r}, it has {there or 'none'}; say which one holds the "
            f"{setting} with {setting}=..."
        )
    return _plain(data[name])


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def read_prompt(prompt: Any) -> tuple[str, str, str | None]:
    r"""Return system text, user text and a closing assistant message of a prompt.

    A prompt is a text, or a list of chat messages. A single user message is its content; a longer
    conversation is written out with the speakers' names, because an observation is one text.

    >>> read_prompt("2 + 2?")
    ('', '2 + 2?', None)
    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    >>> read_prompt(chat)
    ('Be brief.', '2 + 2?', None)
    >>> read_prompt([*chat, {"role": "assistant", "content": "4"}])
    ('Be brief.', '2 + 2?', '4')
    """
    if isinstance(prompt, str):
        return "", prompt, None
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes) or not prompt:
        raise ValueError(f"a prompt must be text or chat messages, got {prompt!r:.60}")
    messages = [_read_message(message) for message in prompt]
    system = [content for role, content in messages if role == "system"]
    talk = [(role, content) for role, content in messages if role != "system"]
    reply = talk.pop()[1] if talk and talk[-1][0] == "assistant" else None
    if not talk:
        raise ValueError("the messages of a prompt must hold one from the user")
    if len(talk) == 1:
        text = talk[0][1]
    else:
        text = "\n\n".join(f"{role.capitalize()}: {content}" for role, content in talk)
    return "\n\n".join(system), text, reply


def _read_message(message: Any) -> tuple[str, str]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError(f"a message must have role and content, got {message!r:.60}")
    role, content = message["role"], message.get("content")
    if isinstance(content, Sequence) and not isinstance(content, (str, bytes)):
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        content = None if None in texts else "".join(map(str, texts))
    if not isinstance(content, str):
        raise ValueError(f"a message must hold text, got {message!r:.60}")
    role = "system" if role == "developer" else role
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"a message must be of system, user, assistant or tool, got {role!r:.40}")
    return role, content


def read_answers(answer: Any) -> tuple[object, ...]:
    """Return the accepted answers: one, or each of a list.

    >>> read_answers("Nile"), read_answers(["Nile", "the Nile"])
    (('Nile',), ('Nile', 'the Nile'))
    """
    many = isinstance(answer, Sequence) and not isinstance(answer, (str, bytes))
    answers = tuple(answer) if many else (answer,)
    if not answers:
        raise ValueError("the list of accepted answers is empty")
    if not all(as_text(one).strip() for one in answers):
        raise ValueError("the answer is empty")
    return answers


def read_choices(choices: Any) -> tuple[str, ...]:
    """Return the options of a row, in order; none where the row has none."""
    if choices is None:
        return ()
    if isinstance(choices, (str, bytes)) or not isinstance(choices, Sequence):
        raise ValueError(f"the choices must be a list of texts, got {choices!r:.60}")
    if not 2 <= len(choices) <= len(LETTERS):
        raise ValueError(f"a row has 2 to {len(LETTERS)} choices, got {len(choices)}")
    return tuple(as_text(choice) for choice in choices)


def read_split(data: Mapping[Any, Any], column: str | None) -> str | None:
    """Return the split that the row names, as ``train``, ``dev`` or ``test``.

    >>> read_split({"split": "validation"}, "split")
    'dev'
    """
    if column is None or data.get(column) is None:
        return None
    name = data[column]
    if not isinstance(name, str) or name.strip().lower() not in SPLIT_NAMES:
        raise ValueError(
            f"{column!r} must be train, dev or test, got {name!r:.40}; rename it, or pass "
            "split_column=None to split by content"
        )
    return SPLIT_NAMES[name.strip().lower()]

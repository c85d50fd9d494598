"""What the reader of replies has to know of an environment in text: how its moves are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.as_text.phrasebooks.number_reader import NumberReader
from llm_gym.as_text.phrasebooks.observations import clip
from llm_gym.as_text.phrasebooks.reader import Unusable
from llm_gym.core.reading.finders import find_pattern, find_phrases
from llm_gym.core.reading.prose import Named
from llm_gym.core.reading.reader import readings


class BookSpeaker:
    """Finds the moves of a phrasebook in sentences.

    Args:
        book: The words of the environment.
        info: The last info, whose action mask says what is legal.
        told: What the model has read, which says nothing when it is quoted back.
    """

    def __init__(
        self, book: Phrasebook, info: Mapping[str, Any], told: tuple[str, ...] = ()
    ) -> None:
        self.book, self.told = book, told
        self.moves = book.legal_moves(info)
        numbers = self.moves is None and isinstance(book.reader, NumberReader)
        self.pattern = book.move_pattern() if numbers else None
        self.free_text = self.moves is None and self.pattern is None

    def named_moves(self, text: str) -> Iterator[Named]:
        if self.moves is not None:
            return find_phrases(text, self.moves)
        return find_pattern(text, self.pattern) if self.pattern else iter(())

    def marked_move(self, label: str, text: str) -> str:
        return "" if self.free_text and label in ("fence", "brackets") else text


def read_on(
    reply: str, speaker: BookSpeaker, read: Callable[[str | None], Any]
) -> tuple[str, Any, str]:
    """Return the move in a reply that is more than a move, what it means, and how it was read.

    Raises ``Unusable``, with what was understood, if anything, where there is none.
    """
    for found in readings(reply, speaker, speaker.told):
        if found.move is None:
            raise Unusable(found.problem)
        try:
            return found.move, read(found.move), found.how
        except Unusable:
            if found.is_final:
                raise
    raise Unusable("")


def read_by_function(parse: Callable[[str], Any], space: gym.Space[Any], move: str) -> Any:
    """Return the action that a function of the user's finds in ``move``."""
    try:
        chosen = parse(move)
        usable = chosen is not None and space.contains(chosen)
    except Unusable:
        raise
    except Exception as error:  # it reads what a model wrote, and may trip over anything
        raise Unusable(f"I cannot use that move: {clip(str(error), 200)}") from error
    if not usable:
        raise Unusable("I cannot use that move.")
    return chosen

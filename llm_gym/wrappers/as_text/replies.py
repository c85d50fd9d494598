"""``ReplyReader``: finds the action in a model's reply.

Read ``ReplyReader.read`` first: a reply may be a move in the requested format, or a sentence that
plainly names one move.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.core.text import clip
from llm_gym.reading.answer import readings
from llm_gym.reading.formats import ActionFormat, drop_thinking
from llm_gym.reading.markup import visible
from llm_gym.reading.moves import Named, find_pattern, find_phrases, no_results
from llm_gym.wrappers.as_text.phrasebooks.action_readers import ChoiceReader
from llm_gym.wrappers.as_text.phrasebooks.book import Phrasebook
from llm_gym.wrappers.as_text.phrasebooks.readers import NumberReader, Unusable

_THERE = re.compile(r"(?i)\bthere(?:'s| is| are| was| were)(?: only| just)? \Z")
_LONGEST_MOVE = 100_000  # characters: an action may have thousands of numbers


class ParsedReply(NamedTuple):
    """What was found in a reply."""

    move: str | None
    action: Any = None
    how: str = "format"
    problem: str | None = None
    """Message to the player if there is no action; None if there is one."""


class ReplyReader:
    """Finds the action that a reply means.

    ``parse`` is the user's function from a move to an action; None uses the phrasebook. ``refuses``
    says whether an action outside the action mask is unusable.
    """

    def __init__(
        self,
        book: Phrasebook,
        format: ActionFormat,
        space: gym.Space[Any],
        parse: Callable[[str], Any] | None,
        *,
        strict: bool,
        refuses: bool,
    ) -> None:
        self.book, self.format, self.strict, self.refuses = book, format, strict, refuses
        if parse is None and type(book).parse is not Phrasebook.parse:
            parse = book.parse
        self.by_function = parse is not None
        self._parse, self._space = parse, space
        self._choices: Mapping[str, Any] = {}
        if parse is None and not refuses and isinstance(book.reader, ChoiceReader):
            self._choices = book.reader.table  # moves that need no reading, from text to action

    def instruction(self) -> str:
        """Return how a move is written, with an example."""
        return self.format.tell(self.book.example_moves()[0])

    def read(self, reply: str, info: Mapping[str, Any], context: tuple[str, ...]) -> ParsedReply:
        """Return what was found; ``info`` may hold a mask, ``context`` is what the model read."""
        move = self.format.parse(drop_thinking(reply) if self.strict else visible(reply))
        if move is not None and (action := self._choices.get(move)) is not None:
            return ParsedReply(move, action)
        try:
            return ParsedReply(move, self.action(move, info))
        except Unusable as reason:
            problem = str(reason)
        if self.strict:
            return ParsedReply(move, problem=problem)
        closer = ""
        for found in readings(reply, BookSpeaker(self.book, info), context):
            if found.move is None:
                closer = found.problem
                break
            try:
                return ParsedReply(found.move, self.action(found.move, info), found.how)
            except Unusable as reason:
                if found.is_final:
                    closer = str(reason)
                    break
        # Where a move is an object, what is inside one is no move of its own.
        is_object = isinstance(self._space, gym.spaces.Dict | gym.spaces.Tuple)
        return ParsedReply(move, problem=problem if is_object else closer or problem)

    def action(self, move: str | None, info: Mapping[str, Any]) -> Any:
        if move is None:
            raise Unusable(f"I found no move in your reply. {self.instruction()}".rstrip())
        if len(move) > _LONGEST_MOVE:
            raise Unusable(f"A move has at most {_LONGEST_MOVE} characters.")
        action = self.book.parse(move) if self._parse is None else self._call_parse(move)
        if self.refuses:
            legal, reader = self.book.legal_moves(info), self.book.reader
            if legal is not None and reader is not None and reader.write(action) not in legal:
                raise Unusable(f"That is not possible now. Legal moves: {', '.join(legal)}.")
        return action

    def _call_parse(self, move: str) -> Any:
        """Return the action that the user's function finds in ``move``."""
        assert self._parse is not None
        try:
            chosen = self._parse(move)
            usable = chosen is not None and self._space.contains(chosen)
        except Unusable:
            raise
        except Exception as error:  # it reads what a model wrote, and may trip over anything
            raise Unusable(f"I cannot use that move: {clip(str(error), 200)}") from error
        if not usable:
            raise Unusable("I cannot use that move.")
        return chosen


def _is_count(text: str, at: int) -> bool:
    """Return whether the number at this position counts things.

    >>> [_is_count(text, text.index("3")) for text in ("There are 3 walls.", "3 turns", "I take 3")]
    [True, True, False]
    """
    return at in no_results(text) or bool(_THERE.search(text, 0, at))


class BookSpeaker:
    """Finds the moves of a phrasebook in sentences."""

    def __init__(self, book: Phrasebook, info: Mapping[str, Any]) -> None:
        self.moves = book.legal_moves(info)
        aliases = {} if book.reader is None else book.reader.aliases()
        meant = {word: move for word, move in aliases.items() if move in (self.moves or ())}
        # A number in a sentence is mostly an angle, a position or a count; alone it is a choice.
        self._numbers = {word: move for word, move in meant.items() if word[-1:].isdecimal()}
        self._meant = {word: move for word, move in meant.items() if word not in self._numbers}
        numbers = self.moves is None and isinstance(book.reader, NumberReader)
        self.pattern = book.move_pattern() if numbers else None
        self.free_text = self.moves is None and self.pattern is None

    mention_is_answer = False

    def named_moves(self, text: str) -> Iterator[Named]:
        if (number := self._numbers.get(text.strip())) is not None:
            yield 0, len(text), number
        elif self.moves is not None:
            for start, end, word in find_phrases(text, [*self.moves, *self._meant]):
                if not (word.isdecimal() and _is_count(text, start)):
                    yield start, end, self._meant.get(word, word)
        elif self.pattern:
            yield from find_pattern(text, self.pattern)

    def finder(self) -> None:
        return None

    def marked_move(self, label: str, text: str) -> str:
        return "" if self.free_text and label == "fence" else text

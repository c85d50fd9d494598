"""From what a player wrote to a move: the format's own parser, then a closer look.

Most replies are one plain move and are done at once. One that is not, or whose move cannot be
played, is read for the one legal move that it plainly names (``core.reading``).
"""

from __future__ import annotations

from collections.abc import Callable

from llm_gym.core.formats import drop_thinking
from llm_gym.core.outcome import Outcome, reject
from llm_gym.core.reading.cues import TAKEN_BACK
from llm_gym.core.reading.dressing import LISTED
from llm_gym.core.reading.prose import is_open
from llm_gym.core.reading.reader import has_marker, readings
from llm_gym.core.reading.spoken import spoken
from llm_gym.core.rules import RulesTelling


class ReplyReading(RulesTelling):
    """Finds the move in a reply."""

    strict: bool
    _base_parse: Callable[[str], str | None]
    _base_bare: bool
    _base_reader: str
    """How the last move was found, for ``info``."""
    _base_observations: list[str]

    def _base_first_reading(self, action: str) -> str | None:
        """Return what the format's own parser finds, if there is nothing to weigh against it."""
        if self.strict:
            return self._base_parse(drop_thinking(action))
        said = spoken(action)
        move = self._base_parse(said)
        if move is None:
            return None
        if not self.free_text and is_open(move):
            return None
        mark = self._base_format.mark
        if (mark and action.count(mark) > 1) or (self._base_bare and has_marker(action, move)):
            return None
        if mark and TAKEN_BACK.search(said, said.rfind(move) + len(move)):
            return None
        if "\n" in action and LISTED.match(move):  # options or a plan, maybe
            return None
        return move

    def _base_read_on(self, action: str, move: str | None, text: str) -> tuple[str | None, Outcome]:
        """Look closer at a reply whose first reading cannot be played."""
        refused: tuple[str | None, Outcome] = move, reject(text)
        if move is not None and self.is_understood(move):
            return refused
        told = (self._base_rules(), self._base_observations[-1])
        said = spoken(action)
        own = self._base_parse(said)
        for found in readings(said, self, told):
            if found.move is None:
                self._base_reader = found.how
                return None, reject(found.problem)
            if len(found.move) > self.max_move_chars or (found.move == move and move):
                continue
            outcome = self.apply(found.move)
            if outcome[1] or found.is_final:
                self._base_reader = "format" if found.move == own else found.how
                return found.move, outcome
            if refused[0] is None and (self._base_bare or found.how != "last line"):
                refused, self._base_reader = (found.move, outcome), found.how
        if refused[0] is None:
            self._base_reader = "nothing"
        return refused

    def _base_unreadable(self, move: str | None) -> Outcome:
        if move is None:
            return reject(f"I found no move in your reply. {self._base_how()}".rstrip())
        return reject(f"A move has at most {self.max_move_chars} characters.")

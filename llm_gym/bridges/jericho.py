"""Interactive fiction through Jericho: ``llm_gym/Jericho-v0``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from llm_gym.bridges.base import CommonArgs, Played
from llm_gym.bridges.commands import FileGames
from llm_gym.bridges.suites import need_package
from llm_gym.core.outcome import StopReason

_PACKAGE = "jericho"
_MOVES = ("look", "inventory", "north", "south", "east", "west", "up", "down", "take all", "wait")


class JerichoEnv(FileGames):
    """A game of interactive fiction, such as Zork.

    Description:
        A file for the Z-machine, played by Frotz inside Jericho; the seed chooses the file and
        seeds the game.

    Actions:
        A command, such as ``open mailbox``.

    Observations:
        What the game says.

    Rewards:
        What the score has gained, as a share of the highest score, where Jericho knows the game.

    Episode end:
        When the game is won or lost. There is no other limit: set ``max_turns``.

    Info:
        The common keys; ``foreign`` has ``score``, ``moves`` and ``game``.

    Args:
        games: A file, several, or a folder of them.
        **common: See ``ForeignEnv``; ``action_format`` is ``plain`` here.

    Version history:
        v0: First release.
    """

    suffixes = (".z1", ".z2", ".z3", ".z4", ".z5", ".z6", ".z7", ".z8")
    made_by = "files for the Z-machine"

    def __init__(self, *, games: str | list[str] = "", **common: Unpack[CommonArgs]) -> None:
        self._suite = need_package(_PACKAGE)
        super().__init__(games, **common)
        self._frotz: Any = None
        self._walkthrough: list[str] | None = None

    def open(self, seed: int) -> str:
        """Begin the game, with a seed of its own."""
        self._unload()
        self._frotz = self._suite.FrotzEnv(self.game, seed=seed % 2**15)
        known = self._frotz.is_fully_supported
        self._walkthrough = list(self._frotz.get_walkthrough()) if known else None
        shown, _ = self._frotz.reset()
        return str(shown).strip()

    def command(self, command: str) -> Played:
        """Play a command."""
        if self._walkthrough is not None:
            on_its_way = self._walkthrough and self._walkthrough[0] == command
            self._walkthrough = self._walkthrough[1:] if on_its_way else None
        shown, gained, done, info = self._frotz.step(command)
        most = self._frotz.get_max_score() or 1
        stop = StopReason.PLAYING
        if self._frotz.victory():
            stop = StopReason.WON
        elif done or self._frotz.game_over():
            stop = StopReason.LOST
        said = {"score": info.get("score"), "moves": info.get("moves"), "game": self.game}
        return Played(str(shown).strip(), float(gained) / most, stop, True, said)

    def example_moves(self) -> Sequence[str]:
        """Return commands that every game knows; Jericho's own search for more takes seconds."""
        return _MOVES

    def oracle_move(self) -> str:
        """Return the next command of Jericho's walkthrough, for who has followed it so far."""
        if not self._walkthrough:
            raise NotImplementedError(f"{self.game} has no walkthrough from here")
        return str(self._walkthrough[0])

    def close(self) -> None:
        """Close the game."""
        super().close()
        self._unload()

    def _unload(self) -> None:
        if self._frotz is not None:
            self._frotz.close()
            self._frotz = None

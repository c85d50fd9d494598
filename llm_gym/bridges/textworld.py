"""TextWorld's games, from compiled files: ``llm_gym/TextWorld-v0``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from llm_gym.bridges.base import CommonArgs, ForeignEnv, Played
from llm_gym.bridges.commands import clean_command, find_games
from llm_gym.bridges.suites import need_package
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError

_PACKAGE = "textworld"
_SUFFIXES = (".z8", ".ulx", ".tw-pddl")
_ADMIN = ("restart", "restore", "save", "quit", "q", "undo", "script", "transcript", "verify")


class TextWorldEnv(ForeignEnv):
    """A game of TextWorld.

    Description:
        Games that ``tw-make`` has compiled, or ALFWorld's (``game.tw-pddl``); the seed chooses
        the file.

    Actions:
        A command, such as ``go east``.

    Observations:
        What the game says, the objective first.

    Rewards:
        What the score has gained, as a share of the highest score.

    Episode end:
        When the game is won or lost. There is no other limit: set ``max_turns``.

    Info:
        The common keys; ``foreign`` has ``score``, ``max_score`` and ``game``.

    Args:
        games: A file, several, or a folder of them.
        **common: See ``ForeignEnv``; ``action_format`` is ``plain`` here.

    Version history:
        v0: First release.
    """

    has_splits = False
    move_name = "command"

    def __init__(self, *, games: str | list[str] = "", **common: Unpack[CommonArgs]) -> None:
        suite = need_package(_PACKAGE)
        if not games:
            raise ConfigError("games must name files that tw-make has compiled, got nothing")
        self.games = find_games(games, _SUFFIXES)
        common.setdefault("action_format", "plain")
        super().__init__(**common)
        names = ("admissible_commands", "policy_commands", "won", "lost", "score", "max_score")
        asked = dict.fromkeys((*names, "feedback", "objective"), True)
        self._suite, self._asked = suite, suite.EnvInfos(**asked)
        self._open: dict[str, Any] = {}
        self._now: Any = {}
        self._score = 0.0
        self.game = ""

    def begin(self, seed: int) -> str:
        """Begin the game that ``seed`` chooses."""
        self.game = self.games[seed % len(self.games)]
        if self.game not in self._open:
            self._close_games()
            self._open[self.game] = self._suite.start(self.game, self._asked)
        self._now, self._score = self._open[self.game].reset(), 0.0
        objective, shown = str(self._now.get("objective") or ""), _tidy(self._now["feedback"])
        return shown if not objective or objective[:40] in shown else f"{objective}\n\n{shown}"

    def play(self, text: str) -> Played:
        """Play a command."""
        command = clean_command(text)
        if not command or command.lower() in _ADMIN:
            return Played("That is no command of the game.", valid=False)
        self._now, _, done = self._open[self.game].step(command)
        most = float(self._now.get("max_score") or 1) or 1.0
        score = float(self._now.get("score") or 0)
        reward, self._score = (score - self._score) / most, score
        stop = StopReason.PLAYING
        if self._now.get("won"):
            stop = StopReason.WON
        elif done or self._now.get("lost"):
            stop = StopReason.LOST
        said = {"score": score, "max_score": most, "game": self.game}
        return Played(_tidy(self._now["feedback"]), reward, stop, True, said)

    def example_moves(self) -> Sequence[str]:
        """Return a few commands."""
        return ["look", "go east", "inventory", "open door"]

    def legal_actions(self) -> list[str] | None:
        """Return the commands that the game admits now, where it says so."""
        commands = self._now.get("admissible_commands")
        return [self.format.render(command) for command in commands] if commands else None

    def random_move(self, rng: np.random.Generator) -> str:
        """Return one of the commands that the game admits now."""
        commands = sorted(self._now.get("admissible_commands") or self.example_moves())
        return str(commands[int(rng.integers(len(commands)))])

    def oracle_move(self) -> str:
        """Return the next command of TextWorld's own solution."""
        commands = self._now.get("policy_commands")
        if not commands:
            raise NotImplementedError(f"{self.game} knows no solution from here")
        return str(commands[0])

    def instance(self) -> object:
        """Return the file of the game."""
        return self.game

    def close(self) -> None:
        """Close the game."""
        self._close_games()

    def _close_games(self) -> None:
        for game in self._open.values():
            game.close()
        self._open.clear()


def _tidy(feedback: object) -> str:
    """Return what the game said, without its banner and its status line."""
    lines = [line.rstrip() for line in str(feedback or "").split("\n")]
    kept = [line for line in lines if "$$" not in line and not line.startswith(">")]
    return "\n".join(kept).strip()

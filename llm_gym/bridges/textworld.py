"""TextWorld's games, from compiled files: ``llm_gym/TextWorld-v0``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from llm_gym.bridges.base import CommonArgs, Played
from llm_gym.bridges.commands import FileGames
from llm_gym.bridges.suites import need_package
from llm_gym.core.outcome import StopReason

_PACKAGE = "textworld"
_ASKED = (
    *("admissible_commands", "policy_commands", "won", "lost", "score", "max_score"),
    *("feedback", "objective"),
)


class TextWorldEnv(FileGames):
    """A game of TextWorld.

    Description:
        Games that ``tw-make`` has compiled; the seed chooses the file.

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

    suffixes: tuple[str, ...] = (".z8", ".ulx", ".tw-pddl")
    made_by = "files that tw-make has compiled"

    def __init__(self, *, games: str | list[str] = "", **common: Unpack[CommonArgs]) -> None:
        self._suite = need_package(_PACKAGE)
        super().__init__(games, **common)
        self._running: Any = None
        self._loaded = ""
        self._now: Any = {}
        self._score = 0.0

    def asked(self) -> Any:
        """Return what TextWorld is to say beside the text."""
        return self._suite.EnvInfos(**dict.fromkeys(_ASKED, True))

    def load(self) -> Any:
        """Return ``self.game`` as TextWorld runs it."""
        return self._suite.start(self.game, self.asked())

    def open(self, seed: int) -> str:
        """Begin the game; the one that was played last is not loaded again."""
        if self._loaded != self.game:
            self._unload()
            self._running, self._loaded = self.load(), self.game
        self._now, self._score = self._running.reset(), 0.0
        objective, shown = str(self._now.get("objective") or ""), _tidy(self._now["feedback"])
        return shown if not objective or objective[:40] in shown else f"{objective}\n\n{shown}"

    def command(self, command: str) -> Played:
        """Play a command."""
        self._now, _, done = self._running.step(command)
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

    def close(self) -> None:
        """Close the game."""
        super().close()
        self._unload()

    def _unload(self) -> None:
        running, self._running, self._loaded = self._running, None, ""
        if running is not None:
            running.close()


def _tidy(feedback: object) -> str:
    """Return what the game said, without its banner and its status line."""
    lines = [line.rstrip() for line in str(feedback or "").split("\n")]
    kept = [line for line in lines if "$$" not in line and not line.startswith(">")]
    return "\n".join(kept).strip()

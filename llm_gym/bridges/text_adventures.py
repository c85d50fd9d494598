"""Text adventures from game files: ``llm_gym/TextWorld-v0`` and ``llm_gym/Jericho-v0``."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from llm_gym.bridges.base import BridgeArgs, BridgeEnv, BridgeStep, need_package, verdict
from llm_gym.core.errors import ConfigError

_LONGEST = 200
_SIGNS = frozenset(map(chr, range(32, 127))) - {"\\"}
# They would end the game, or leave it for another one.
_ADMIN = frozenset(
    ("restart", "restore", "save", "quit", "q", "undo", "script", "transcript", "verify")
)


def clean_command(text: str) -> str:
    r"""Return ``text`` in a form that is safe for an interpreter written in C.

    A NUL byte crashes Frotz and the process. A backslash begins a command to Frotz itself, and an
    unknown one, such as ``\boxed``, makes it loop for ever.

    >>> clean_command("\\boxed{open\x00 the \ud800 door\nnow}")
    'boxed{open the door now}'
    """
    kept = "".join(sign if sign in _SIGNS else " " for sign in text[: 4 * _LONGEST])
    return " ".join(kept.split())[:_LONGEST]


def find_games(given: str | list[str], suffixes: tuple[str, ...]) -> list[str]:
    """Return the files in ``given``: a file, several files, or folders."""
    found: list[str] = []
    for path in map(Path, [given] if isinstance(given, str) else given):
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.name.endswith(suffixes))
            found += map(str, files)
        elif path.exists():
            found.append(str(path))
        else:
            raise ConfigError(f"games must be files or folders, and there is no {path}")
    if not found:
        raise ConfigError(f"games must have files that end in {', '.join(suffixes)}, got {given!r}")
    return found


class FileGames(BridgeEnv):
    """Games that are files: the seed chooses one, and it is played by commands."""

    has_splits = False
    move_name = "command"
    suffixes: tuple[str, ...] = ()
    made_by = ""
    """Names the files in the error for missing games."""

    def __init__(self, games: str | list[str], **common: Unpack[BridgeArgs]) -> None:
        if not games:
            raise ConfigError(f"games must name {self.made_by}, got nothing")
        self.games = find_games(games, self.suffixes)
        self.game = ""
        self._running: Any = None
        """The suite's environment of the game that was begun last."""
        common.setdefault("action_format", "plain")
        super().__init__(**common)

    def begin(self, seed: int) -> str:
        self.instance = self.game = self.games[seed % len(self.games)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Jericho's: it does not know every game's score
            return self.open(seed)

    def play(self, text: str) -> BridgeStep:
        command = clean_command(text)
        if not command or command.lower() in _ADMIN:
            return BridgeStep("That is no command of the game.", valid=False)
        return self.command(command)

    def open(self, seed: int) -> str:
        """Begin ``self.game``; return what it says."""
        raise NotImplementedError

    def command(self, command: str) -> BridgeStep:
        raise NotImplementedError

    def close(self) -> None:
        super().close()
        self._unload()

    def _unload(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()


_ENV_INFOS = (
    "admissible_commands", "policy_commands", "won", "lost", "score", "max_score", "feedback",
    "objective",
)  # fmt: skip


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
        **common: See ``BridgeEnv``; ``action_format`` is ``plain`` here.
    """

    suffixes = (".z8", ".ulx", ".tw-pddl")
    examples = ("look", "go east", "inventory", "open door")
    made_by = "files that tw-make has compiled"

    def __init__(self, *, games: str | list[str] = "", **common: Unpack[BridgeArgs]) -> None:
        self._suite = need_package("textworld")
        super().__init__(games, **common)
        self._loaded = ""
        self._infos: Any = {}
        self._score = 0.0

    def open(self, seed: int) -> str:
        """Begin the game; the one that was played last is not loaded again."""
        if self._running is None or self._loaded != self.game:
            self._unload()
            infos = self._suite.EnvInfos(**dict.fromkeys(_ENV_INFOS, True))
            self._running, self._loaded = self._suite.start(self.game, infos), self.game
        self._infos, self._score = self._running.reset(), 0.0
        objective, shown = str(self._infos.get("objective") or ""), _tidy(self._infos["feedback"])
        return shown if not objective or objective[:40] in shown else f"{objective}\n\n{shown}"

    def command(self, command: str) -> BridgeStep:
        self._infos, _, done = self._running.step(command)
        most = float(self._infos.get("max_score") or 1) or 1.0
        score = float(self._infos.get("score") or 0)
        reward, self._score = (score - self._score) / most, score
        stop = verdict(done or self._infos.get("lost"), self._infos.get("won"))
        foreign = {"score": score, "max_score": most, "game": self.game}
        return BridgeStep(_tidy(self._infos["feedback"]), reward, stop, True, foreign)

    def legal_moves(self) -> Sequence[str] | None:
        return self._infos.get("admissible_commands") or None

    def oracle_move(self) -> str:
        commands = self._infos.get("policy_commands")
        if not commands:
            raise NotImplementedError(f"{self.game} knows no solution from here")
        return str(commands[0])


def _tidy(feedback: object) -> str:
    """Return what the game says, without its banner and its status line."""
    lines = [line.rstrip() for line in str(feedback or "").split("\n")]
    kept = [line for line in lines if "$$" not in line and not line.startswith(">")]
    return "\n".join(kept).strip()


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
        **common: See ``BridgeEnv``; ``action_format`` is ``plain`` here.
    """

    suffixes = (".z1", ".z2", ".z3", ".z4", ".z5", ".z6", ".z7", ".z8")
    made_by = "files for the Z-machine"
    # Commands that every game knows; Jericho's own search for more takes seconds.
    examples = ("look", "inventory", "north", "south", "east", "west", "up", "take all", "wait")

    def __init__(self, *, games: str | list[str] = "", **common: Unpack[BridgeArgs]) -> None:
        self._suite = need_package("jericho")
        super().__init__(games, **common)
        self._walkthrough: list[str] | None = None

    def open(self, seed: int) -> str:
        self._unload()
        self._running = self._suite.FrotzEnv(self.game, seed=seed % 2**15)
        known = self._running.is_fully_supported
        self._walkthrough = list(self._running.get_walkthrough()) if known else None
        shown, _ = self._running.reset()
        return str(shown).strip()

    def command(self, command: str) -> BridgeStep:
        if self._walkthrough is not None:
            on_its_way = self._walkthrough and self._walkthrough[0] == command
            self._walkthrough = self._walkthrough[1:] if on_its_way else None
        shown, gained, done, info = self._running.step(command)
        most = self._running.get_max_score() or 1
        stop = verdict(done or self._running.game_over(), self._running.victory())
        foreign = {"score": info.get("score"), "moves": info.get("moves"), "game": self.game}
        return BridgeStep(str(shown).strip(), float(gained) / most, stop, True, foreign)

    def oracle_move(self) -> str:
        """Return the next command of Jericho's walkthrough, if it was followed so far."""
        if not self._walkthrough:
            raise NotImplementedError(f"{self.game} has no walkthrough from here")
        return str(self._walkthrough[0])

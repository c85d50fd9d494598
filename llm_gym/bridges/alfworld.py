"""ALFWorld's households in text: ``llm_gym/ALFWorld-v0``.

They are games of TextWorld's, written in PDDL. What ALFWorld adds, and what is taken from it here,
are the names that a player reads (``apple 1`` for an id with coordinates) and the choice of games.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Unpack

from llm_gym.bridges.base import CommonArgs, Played
from llm_gym.bridges.suites import choose, need_package
from llm_gym.bridges.textworld import TextWorldEnv
from llm_gym.core.splits import check_split
from llm_gym.errors import ConfigError

_PACKAGE = "alfworld"
_FOLDERS = {"train": "train", "dev": "valid_seen", "test": "valid_unseen"}
_TURNS = 50


class ALFWorldEnv(TextWorldEnv):
    """A household task of ALFWorld.

    Description:
        A room with furniture, and a task such as to put a clean plate into the fridge. The seed
        chooses one of the games that ``alfworld-download`` has fetched.

    Actions:
        A command, such as ``go to fridge 1`` or ``take apple 1 from countertop 1``.

    Observations:
        The room and the task, then what the game says: ``Nothing happens.`` to a command that it
        does not take here, which is an unusable reply.

    Rewards:
        1 when the task is done.

    Episode end:
        When the task is done. ``max_turns`` cuts it, 50 by default, as in ALFWorld.

    Info:
        The common keys; ``foreign`` has ``score``, ``max_score`` and ``game``.

    Args:
        games: A folder in ALFWorld's layout, or a part of it; by default where ALFWorld keeps its
            own. With ``train``, ``valid_seen`` and ``valid_unseen`` in it there are the splits
            train, dev and test.
        tasks: Kinds of tasks, such as ``pick_and_place_simple``; by default all six.
        **common: See ``ForeignEnv``; ``action_format`` is ``plain`` here, and only turns are
            limited, as in ALFWorld.

    Version history:
        v0: First release.
    """

    def __init__(
        self, *, games: str = "", tasks: Sequence[str] = (), **common: Unpack[CommonArgs]
    ) -> None:
        self._alfworld = need_package(_PACKAGE, "alfworld.agents.environment.alfred_tw_env")
        need_package(_PACKAGE, "fast_downward")  # else TextWorld misses it at the first reset
        known = self._alfworld.TASK_TYPES
        self.tasks = [choose("tasks", task, known.values()) for task in tasks]
        kinds = tuple(at for at, task in known.items() if not tasks or task in tasks)
        folder = Path(games or need_package(_PACKAGE, "alfworld.info").ALFWORLD_DATA)
        self._splits = {}
        for split, name in _FOLDERS.items():
            if (part := next(folder.rglob(name), None)) is not None:
                self._splits[split] = _collect(self._alfworld, str(part), kinds)
        found = _collect(self._alfworld, str(folder), kinds)
        if not found:
            _collect.cache_clear()  # they may be fetched while this program runs
            of_them = f" for {', '.join(tasks)}" if tasks else ""
            raise ConfigError(
                f"there are no games of ALFWorld{of_them} in {folder}; alfworld-download fetches "
                "them, and games= names another folder"
            )
        common.setdefault("max_turns", _TURNS)
        common.setdefault("max_invalid", common["max_turns"] or _TURNS)
        super().__init__(games=found, **common)
        self._all = self.games
        self.has_splits = all(self._splits.get(split) for split in _FOLDERS)

    def load(self) -> Any:
        """Return ``self.game`` as TextWorld runs it, with the names that ALFWorld gives."""
        asked = self.asked()
        asked.policy_commands = False  # a search at every step; the oracle asks for it
        return self._suite.start(self.game, asked, [self._alfworld.AlfredDemangler()])

    def command(self, command: str) -> Played:
        """Play a command; what the game does not admit here is no move."""
        admitted = command in self._now["admissible_commands"]
        return super().command(command)._replace(valid=admitted)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode; the splits are ALFWorld's own."""
        split = (options or {}).get("split")
        self.games = self._all
        if split is not None and self.has_splits:
            self.games, options = self._splits[check_split(split)], None
        return super().reset(seed=seed, options=options)

    def oracle_move(self) -> str:
        """Return the next command of the plan that ALFWorld's planner finds from here."""
        game = self._running.unwrapped
        with self._foreign:
            plan = game._pddl_state.replan(game._entity_infos)
        if not plan:
            raise NotImplementedError(f"there is no plan from here in {self.game}")
        return str(plan[0])

    def example_moves(self) -> Sequence[str]:
        """Return a few commands."""
        return ["look", "inventory", "go to countertop 1", "open fridge 1"]


@cache
def _collect(alfworld: Any, folder: str, kinds: tuple[int, ...]) -> list[str]:
    """Return the games below ``folder`` that ALFWorld would play, in one order everywhere."""
    config = {
        "env": {"goal_desc_human_anns_prob": 0.0, "task_types": kinds},
        "dataset": {"data_path": folder, "num_train_games": -1},
    }
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        return sorted(alfworld.AlfredTWEnv(config, "train").game_files)

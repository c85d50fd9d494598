"""ScienceWorld's experiments: ``llm_gym/ScienceWorld-v0``. It needs a Java runtime."""

import os
from collections.abc import Sequence
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any, Unpack

from llm_gym.bridges.base import BridgeArgs, BridgeEnv, BridgeStep, choose, need_package, verdict
from llm_gym.bridges.text_adventures import clean_command
from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import Info, Options
from llm_gym.core.splits import check_split

_FULL = 100.0
_ENDS_WITHIN = 10.0
"""Seconds that its Java process gets to end by itself."""
_OPTIONS = "JAVA_TOOL_OPTIONS"
# What is in a room is a set, told in the order of hashes, which Java draws anew for every object.
# With one hash for all of them the order is that of their making, and an episode can be repeated.
_ONE_HASH = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"


class ScienceWorldEnv(BridgeEnv):
    """An experiment of ScienceWorld.

    Description:
        One of its tasks, in a variation that the seed chooses.

    Actions:
        A command, such as ``open door to kitchen``.

    Observations:
        The task and the room, then what the world says.

    Rewards:
        What the score has gained, as a share of the full score; below 0 where a task is failed.

    Episode end:
        When the task is done, or can no longer be. ``max_turns`` cuts it, 100 by default.

    Info:
        The common keys; ``foreign`` has ``score``, ``task`` and ``variation``.

    Args:
        env_id: A task, such as ``boil``.
        simplifications: As ScienceWorld has them, such as ``easy``.
        **common: See ``BridgeEnv``; ``action_format`` is ``plain`` here.
    """

    move_name = "command"
    examples = ("look around", "inventory", "open door to kitchen", "wait1")

    def __init__(
        self,
        *,
        env_id: str = "find-living-thing",
        simplifications: str = "easy",
        **common: Unpack[BridgeArgs],
    ) -> None:
        suite = need_package("scienceworld")
        common.setdefault("action_format", "plain")
        common.setdefault("max_turns", 100)
        super().__init__(**common)
        self.simplifications = simplifications
        self._suite = suite
        with self._rng_guard:
            self._world: Any = _start(suite)
            self.task = choose("env_id", env_id, self._world.get_task_names())
            self.variations: Sequence[int] = range(self._world.get_max_variations(env_id))
        self._variation = 0
        self._valid: list[str] = []
        self._played: list[str] = []
        self._gold: list[str] | None = None

    def begin(self, seed: int) -> str:
        self._variation = int(self.variations[seed % len(self.variations)])
        self.instance = self.task, self._variation
        self._world.load(self.task, self._variation, self.simplifications)
        room, info = self._world.reset()
        self._valid, self._played, self._gold = list(info["valid"]), [], None
        return f"{self._world.get_task_description()}\n\n{room}"

    def play(self, text: str) -> BridgeStep:
        command = clean_command(text)
        if not command:
            return BridgeStep("That is no command.", valid=False)
        if self._gold is not None:
            self._gold = self._gold[1:] if self._gold[:1] == [command] else []
        observation, gained, done, info = self._world.step(command)
        self._played.append(command)
        self._valid = list(info["valid"])
        score = float(info.get("score", 0.0))
        valid = "No known action matches" not in observation
        stop = verdict(done, done and score >= _FULL)
        foreign = {"score": score, "task": self.task, "variation": self._variation}
        return BridgeStep(str(observation), float(gained) / _FULL, stop, valid, foreign)

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin an episode; the splits are ScienceWorld's own."""
        split = (options or {}).get("split")
        with self._rng_guard:
            if self._world is None:  # closed
                self._world = _start(self._suite)
            if split is not None:
                check_split(split)
                self._world.load(self.task, 0, self.simplifications)
                of_split = getattr(self._world, f"get_variations_{split}")
                self.variations, options = list(of_split()), None
            else:
                self.variations = range(self._world.get_max_variations(self.task))
        return super().reset(seed=seed, options=options)

    def legal_moves(self) -> list[str]:
        return self._valid

    def oracle_move(self) -> str:
        """Return the next command of the gold path, if it was followed so far."""
        if self._gold is None:
            with self._rng_guard:
                self._gold = self._find_gold()
        if not self._gold:
            raise NotImplementedError(f"{self.task} has no gold path from here")
        return str(self._gold[0])

    def _find_gold(self) -> list[str]:
        """Return what is left of the gold path.

        To find it takes longer than all the rest of a reset, so it is found when it is asked for:
        the world begins again, and what was played is played again.
        """
        self._world.load(self.task, self._variation, self.simplifications, generateGoldPath=True)
        self._world.reset()
        gold = list(self._world.get_gold_action_sequence())
        for command in self._played:
            self._world.step(command)
        done = len(self._played)
        return gold[done:] if gold[:done] == self._played else []

    def close(self) -> None:
        super().close()
        world, self._world = self._world, None
        if world is not None:
            with self._rng_guard:
                _end(world)


def _end(world: Any) -> None:
    """End the Java process, of which ScienceWorld leaves the pipes open and the end unawaited."""
    process = world._gateway.java_process
    with suppress(OSError):  # it may have ended by itself
        world.close()
    try:
        process.wait(timeout=_ENDS_WITHIN)
    except TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()


def _start(suite: Any) -> Any:
    given = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = f"{given or ''} {_ONE_HASH}".strip()
    try:
        return suite.ScienceWorldEnv("", envStepLimit=10**9)  # the limit is max_turns
    except Exception as error:
        raise ConfigError(f"ScienceWorld needs a Java runtime (java): {error!s:.200}") from error
    finally:
        del os.environ[_OPTIONS]
        if given is not None:
            os.environ[_OPTIONS] = given

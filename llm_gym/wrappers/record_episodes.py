"""``RecordEpisodes``: writes every episode to a file when it ends."""

import os
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import Info, Options
from llm_gym.episodes import EpisodeWriter, Trajectory
from llm_gym.episodes.play import (
    add_turn,
    begin,
    close_record,
    describe_env,
    open_record,
    play_step,
)
from llm_gym.wrappers.base import TextWrapper


class RecordEpisodes(TextWrapper):
    """Append every episode to a file when it ends; ``llm-gym replay`` reads the file.

    An episode that ``reset`` or ``close`` interrupts is not written.

    If ``reset`` gets no seed, the wrapper draws one from the environment's generator, so that every
    record can be replayed.

    Args:
        env: Text environment to wrap.
        path: A ``.jsonl`` or ``.jsonl.gz`` file. Give every environment a file of its own.
        policy: Name of the player, stored in the records.

    Example:
        >>> import llm_gym, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> env = RecordEpisodes(gym.make("llm_gym/GuessTheNumber-v0"), f"{folder.name}/a.jsonl")
        >>> _ = env.reset(seed=0)
        >>> _ = env.step(env.unwrapped.oracle_action())
        >>> env.close()
        >>> [episode.seed for episode in llm_gym.read_episodes(f"{folder.name}/a.jsonl")]
        [0]
        >>> folder.cleanup()
    """

    def __init__(
        self, env: gym.Env[str, str], path: str | os.PathLike[str], policy: str | None = None
    ) -> None:
        if not str(path).endswith((".jsonl", ".jsonl.gz")):
            raise ConfigError(f"path must end in .jsonl or .jsonl.gz, got {str(path)!r}")
        super().__init__(env)
        self.path = self._saved_kwargs["path"] = os.fspath(path)
        self.policy = policy
        self._episode: Trajectory | None = None
        self._writer: EpisodeWriter | None = None

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        if seed is None:
            seed = int(self.env.unwrapped.np_random.integers(2**31))
        beginning = begin(self.env, seed, options)
        self._episode = open_record(beginning, describe_env(self.env), seed, options)
        self._episode.policy = self.policy
        return beginning.observation, dict(beginning.info)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play ``action``, add it to the record, and write the record if it is complete."""
        step = play_step(self.env, action)
        if self._episode is not None:
            add_turn(self._episode, action, step)
            if self._episode.dones[-1]:
                if self._writer is None:
                    self._writer = EpisodeWriter(self.path)
                self._writer.write(close_record(self._episode))
                self._episode = None
        return step

    def close(self) -> None:
        self._episode = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None}  # an open file stays where it is

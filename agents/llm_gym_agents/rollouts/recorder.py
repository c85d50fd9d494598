"""``RolloutRecorder``: some of the episodes that were trained on, with what was made of them.

Every few iterations a few episodes go to ``episodes/train-NNNNNN.jsonl``, in the schema of every
other record, with log-prob, value, advantage and ratio of each token. Only the numbers of those
episodes are copied while training waits; the file is written in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torch import Tensor

from llm_gym.episodes import write_episodes
from llm_gym_agents.rollouts.records import episode_tokens
from llm_gym_agents.rollouts.turns import Rollout


class RolloutRecorder:
    """Writes records of training.

    Args:
        folder: Of the run.
        every: Iterations from one file to the next, the first iteration included; 0 for none.
        episodes: Most episodes of a file.
        pieces: Gives the text of each of some tokens; None writes the ids alone.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        episodes: int,
        pieces: Callable[[Sequence[int]], list[str]] | None = None,
    ) -> None:
        self.folder, self.every, self.episodes, self.pieces = folder, every, episodes, pieces
        self._thread: ThreadPoolExecutor | None = None
        self._written: Future[None] | None = None

    def is_due(self, iteration: int) -> bool:
        """Return whether the episodes of ``iteration``, counted from 1, are recorded."""
        return self.every > 0 and (iteration - 1) % self.every == 0

    def record(self, iteration: int, rollout: Rollout, trained: Mapping[str, Tensor]) -> None:
        """Write the first episodes of ``rollout``.

        ``trained`` has what the update made of every sampled token of the batch.
        """
        self.wait()
        some = rollout._replace(
            episodes=rollout.episodes[: self.episodes], turns=rollout.turns[: self.episodes]
        )
        numbers = {name: values[: some.tokens].tolist() for name, values in trained.items()}
        self._thread = self._thread or ThreadPoolExecutor(1, "llm-gym-records")
        place = self.folder / f"episodes/train-{iteration:06d}.jsonl"
        self._written = self._thread.submit(self._write, place, some, numbers)

    def wait(self) -> None:
        """Return when what was recorded is on disk; raise what went wrong there."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def close(self) -> None:
        """Wait, and end the thread. Safe to call twice, and to record after it."""
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            self._thread = None

    def _write(self, place: Path, rollout: Rollout, numbers: Mapping[str, list[float]]) -> None:
        first = 0
        for episode, turns, closing in zip(
            rollout.episodes, rollout.turns, rollout.closings, strict=False
        ):
            last = first + sum(len(turn.reply_ids) for turn in turns)
            own = {name: values[first:last] for name, values in numbers.items()}
            episode.tokens = episode_tokens(turns, closing, own)
            if self.pieces is not None:
                episode.tokens.texts = self.pieces(episode.tokens.ids)
            episode.weights_version = turns[-1].version
            first = last
        write_episodes(place, rollout.episodes)

"""``RolloutRecorder``: writes some training episodes with the numbers of each token.

Every few iterations a few episodes go to ``episodes/train-NNNNNN.jsonl``, with log-prob, value,
advantage and ratio of each token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from llm_gym.episodes import Tokens, write_episodes
from llm_gym_agents.rollouts.tasks import BootstrapPrompt, Rollout, Turn


class RolloutRecorder:
    """Writes training episodes.

    Args:
        folder: The run's folder.
        every: Iterations between two files, starting with the first iteration; 0 for no files.
        episodes: Maximum episodes of a file.
        pieces: Returns the text of each token; None writes only the ids.
        writes: Whether this process writes; the others only know when a record is due.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        episodes: int,
        pieces: Callable[[Sequence[int]], list[str]] | None = None,
        *,
        writes: bool = True,
    ) -> None:
        self.writes = writes
        self.folder, self.every, self.episodes, self.pieces = folder, every, episodes, pieces

    def is_due(self, iteration: int) -> bool:
        return self.every > 0 and (iteration - 1) % self.every == 0

    def record(self, iteration: int, rollout: Rollout, trained: Mapping[str, Tensor]) -> None:
        """Write the first episodes of ``rollout``.

        ``trained`` has one number per sampled token of the batch in each column.
        """
        if not self.writes:
            return
        recorded, first = rollout.at(range(min(self.episodes, len(rollout.episodes)))), 0
        for episode, turns, bootstrap in zip(*recorded[:3], strict=True):
            last = first + sum(len(turn.reply_ids) for turn in turns)
            own = {name: values[first:last].tolist() for name, values in trained.items()}
            episode.tokens = episode_tokens(turns, bootstrap, own)
            if self.pieces is not None:
                episode.tokens.texts = self.pieces(episode.tokens.ids)
            episode.weights_version = turns[-1].version
            first = last
        place = self.folder / f"episodes/train-{iteration:06d}.jsonl"
        write_episodes(place, recorded.episodes)


def episode_tokens(
    turns: Sequence[Turn],
    bootstrap: BootstrapPrompt | None = None,
    trained: Mapping[str, Sequence[float]] | None = None,
) -> Tokens:
    """Return the tokens of an episode, with the columns ``trained`` of every sampled token.

    >>> first = Turn(0, 0, [5, 6], [7], [-0.5], "stop", version=3)
    >>> second = Turn(0, 1, [8], [9], [-1.0], "stop", version=3)
    >>> tokens = episode_tokens([first, second], trained={"advantages": [0.25, 2.0]})
    >>> tokens.ids, tokens.turns, tokens.advantages
    ([5, 6, 7, 8, 9], [0, 0, 0, 1, 1], [nan, nan, 0.25, nan, 2.0])
    """
    sampled, ids, numbers, versions = [], [], [], []
    for turn in turns:
        read, wrote = len(turn.prompt_ids), len(turn.reply_ids)
        ids += [*turn.prompt_ids, *turn.reply_ids]
        sampled += [False] * read + [True] * wrote
        numbers += [turn.number] * (read + wrote)
        versions += [turn.version] * (read + wrote)
    if bootstrap is not None:
        ids += bootstrap.ids
        sampled += [False] * len(bootstrap.ids)
        numbers += [len(turns)] * len(bootstrap.ids)
        versions += [turns[-1].version] * len(bootstrap.ids)
    log_probs = [one for turn in turns for one in turn.log_probs]
    columns: dict[str, Any] = {}
    for name, values in {"log_probs": log_probs, **(trained or {})}.items():
        left = iter(values)
        columns[name] = [next(left) if one else math.nan for one in sampled]
    return Tokens(
        ids=ids,
        trained_on=sampled if trained is not None else None,
        weights_versions=versions,
        turns=numbers,
        **columns,
    )

"""Data sets: the prompts of episodes, and episodes of built-in players.

The rows are plain dictionaries; ``as_dataset`` makes a Hugging Face data set of them. A prompt
holds the seed of its episode, in its row and in its last message: some trainers hand over the row,
some the prompt alone, and two episodes may begin with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llm_gym.episodes import Trajectory, play_episode
from llm_gym.errors import ConfigError
from llm_gym_agents.export.episode import Conversation, need

Row = dict[str, Any]


def prompt_rows(
    env_id: str, seeds: Iterable[int], *, split: str | None = None, **kwargs: Any
) -> list[Row]:
    """Return how each episode begins.

    >>> row, = prompt_rows("llm_gym/GuessTheNumber-v0", [3])
    >>> sorted(row), row["prompt"][-1]["seed"]
    (['env_id', 'instance_id', 'prompt', 'seed', 'split'], 3)
    """
    rows = []
    with Conversation(env_id, **kwargs) as talk:
        for seed in seeds:
            prompt = talk.begin(seed, split)
            prompt[-1]["seed"] = seed
            about = {"env_id": env_id, "instance_id": talk.instance_id, "split": split or ""}
            rows.append({"prompt": prompt, "seed": seed, **about})
    return rows


def episode_rows(
    env_id: str,
    seeds: Iterable[int],
    *,
    player: str = "solver",
    split: str | None = None,
    only_won: bool = False,
    **kwargs: Any,
) -> list[Row]:
    """Return episodes of a built-in player, as messages.

    >>> row, = episode_rows("llm_gym/GuessTheNumber-v0", [3])
    >>> [message["role"] for message in row["messages"]][:3], row["success"]
    (['user', 'assistant', 'user'], True)
    """
    options = None if split is None else {"split": split}
    with Conversation(env_id, **kwargs) as talk:
        if not talk.env.has_wrapper_attr(f"{player}_action"):
            raise ConfigError(
                f"{env_id} brings no {player} along; give its class a {player}_action() that "
                "returns a move, or choose another player"
            )
        act = talk.env.get_wrapper_attr(f"{player}_action")
        rows = []
        for seed in seeds:
            try:
                episode = play_episode(talk.env, lambda _: act(), seed, options)
            except NotImplementedError as error:
                raise ConfigError(f"{env_id} has no {player}: {error}") from error
            if episode.success or not only_won:
                rows.append({**_told(episode), "env_id": env_id, "player": player})
    return rows


def _told(episode: Trajectory) -> Row:
    return {
        "messages": _plain(episode.messages),
        "reward": episode.total_reward,
        "success": bool(episode.success),
        "turns": episode.num_turns,
        "seed": episode.seed,
        "instance_id": episode.instance_id or "",
    }


def _plain(messages: Sequence[Any]) -> list[Row]:
    """Return messages with the two columns that every one has."""
    return [{"role": one["role"], "content": one["content"] or ""} for one in messages]


def as_dataset(rows: Sequence[Row]) -> Any:
    """Return rows as a ``datasets.Dataset``."""
    return need("datasets", "datasets").Dataset.from_list(list(rows))

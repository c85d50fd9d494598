"""Episodes for other trainers: as conversations, data set rows, token ids and tool definitions.

A prompt row holds the seed of its episode, in the row and in its last message: some trainers pass
the row, some the prompt alone, and two episodes may begin with the same words.
"""

import importlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_attribute
from llm_gym.core.outcome import StopReason, stop_reason
from llm_gym.episodes import Trajectory, play_episode
from llm_gym.episodes.play import begin
from llm_gym.evaluate.players import built_in_player
from llm_gym.registry.lookup import find_spec
from llm_gym.tools.registry import ToolRegistry
from llm_gym.wrappers.as_text import ensure_text
from llm_gym_agents.text.chat import ChatFormat

Message = dict[str, Any]


class EpisodeChat(AbstractContextManager["EpisodeChat"]):
    """An environment as a chat partner; close it, or use it in a ``with`` statement.

    >>> chat = EpisodeChat("llm_gym/GuessTheNumber-v0")
    >>> [message["role"] for message in chat.begin(seed=3)]
    ['user']
    >>> chat.answer("2"), chat.reward, chat.done
    ('Yes, the number is 2.', 1.0, True)
    """

    def __init__(self, env_id: str, **kwargs: Any) -> None:
        self.env: gym.Env[str, str] = ensure_text(gym.make(find_spec(env_id), **kwargs))
        self.reward, self.turns, self.done = 0.0, 0, True
        self.stop, self.instance_id = StopReason.PLAYING, ""

    def begin(self, seed: int | None = None, split: str | None = None) -> list[Message]:
        """Begin an episode and return the messages before the first reply."""
        beginning = begin(self.env, seed, None if split is None else {"split": split})
        self.reward, self.turns, self.done = 0.0, 0, False
        self.stop, self.instance_id = StopReason.PLAYING, beginning.instance_id or ""
        messages = [{"role": "user", "content": beginning.observation}]
        if beginning.system_prompt:
            messages.insert(0, {"role": "system", "content": beginning.system_prompt})
        return messages

    def answer(self, reply: str) -> str:
        """Play a reply and return the next observation."""
        if self.done:
            return "The episode is over."
        observation, reward, terminated, truncated, info = self.env.step(reply)
        self.reward += float(reward)
        self.turns += 1
        self.done = bool(terminated or truncated)
        self.stop = stop_reason(terminated, truncated, info)
        return observation

    def close(self) -> None:
        """Close the environment; reward and success stay readable."""
        self.env.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def success(self) -> bool:
        return self.stop is StopReason.WON


def need(package: str, pip: str) -> Any:
    """Import a package, or raise ``ConfigError`` with the install command."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"this export needs {package}: {error}. Install it with: pip install {pip}"
        ) from error


Row = dict[str, Any]


def prompt_rows(
    env_id: str, seeds: Iterable[int], *, split: str | None = None, **kwargs: Any
) -> list[Row]:
    """Return one row with the first prompt of each episode.

    >>> row, = prompt_rows("llm_gym/GuessTheNumber-v0", [3])
    >>> sorted(row), row["prompt"][-1]["seed"]
    (['env_id', 'instance_id', 'prompt', 'seed', 'split'], 3)
    """
    rows = []
    with EpisodeChat(env_id, **kwargs) as chat:
        for seed in seeds:
            prompt = chat.begin(seed, split)
            prompt[-1]["seed"] = seed
            about = {"env_id": env_id, "instance_id": chat.instance_id, "split": split or ""}
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
    with EpisodeChat(env_id, **kwargs) as chat:
        rows = []
        for seed in seeds:
            act = built_in_player(chat.env, player, env_id, seed)
            episode = play_episode(chat.env, lambda _: act(), seed, options)  # noqa: B023 - at once
            if episode.success or not only_won:
                rows.append({**episode_row(episode), "env_id": env_id, "player": player})
    return rows


def episode_row(episode: Trajectory) -> Row:
    """Return an episode as messages, and how it went."""
    messages = episode.messages
    return {
        "messages": [{"role": m["role"], "content": m["content"] or ""} for m in messages],
        "reward": episode.total_reward,
        "success": bool(episode.success),
        "turns": episode.num_turns,
        "seed": episode.seed,
        "instance_id": episode.instance_id or "",
    }


def as_dataset(rows: Sequence[Row]) -> Any:
    """Return rows as a ``datasets.Dataset``."""
    return need("datasets", "datasets").Dataset.from_list(list(rows))


class TokenEpisode:
    """An episode as a prompt and a completion of replies and observations.

    Sampled ids are never tokenised again.
    """

    def __init__(self, chat: EpisodeChat, chat_format: ChatFormat, seed: int) -> None:
        messages = chat.begin(seed)
        system = messages[0]["content"] if len(messages) > 1 else ""
        self.chat, self._format = chat, chat_format
        self.prompt = chat_format.opening(system, messages[-1]["content"])
        self.completion: list[int] = []
        self.mask: list[int] = []
        """1 where the model wrote."""
        self._logprobs: list[float] = []

    @property
    def ids(self) -> list[int]:
        """What the model reads before its next reply."""
        return [*self.prompt, *self.completion]

    @property
    def logprobs(self) -> list[float] | None:
        """Of the completion, 0 at observations; None if a reply came without."""
        return self._logprobs if len(self._logprobs) == len(self.completion) else None

    def is_over(self, most: int) -> bool:
        """Whether the episode has ended or has ``most`` ids."""
        return self.chat.done or len(self.completion) >= most

    def take(self, reply: list[int], logprobs: Sequence[float] | None) -> None:
        """Play a reply and append the observation."""
        self._add(reply, 1, logprobs)
        observation = self.chat.answer(self._format.text_of(reply))
        if not self.chat.done:
            following = self._format.following(reply, observation)
            self._add(following, 0, [0.0] * len(following) if logprobs is not None else None)

    def _add(self, ids: list[int], mask: int, logprobs: Sequence[float] | None) -> None:
        self.completion += ids
        self.mask += [mask] * len(ids)
        self._logprobs += logprobs or []


def _one(name: str, about: str, argument: str, meaning: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
    }
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": schema},
    }


_PLAY = _one("play", "Play one move and see what happens.", "move", "As the rules ask for.")


def tool_definitions(env: gym.Env[str, str]) -> list[dict[str, Any]]:
    """Return the tools of an environment with tools; of any other, the one tool ``play``.

    >>> import llm_gym
    >>> tools = tool_definitions(gym.make("llm_gym/MathPython-v0"))
    >>> [one["function"]["name"] for one in tools]
    ['python']
    >>> tool_definitions(gym.make("llm_gym/Echo-v0"))[0]["function"]["name"]
    'play'
    """
    if (own := find_attribute(env, "sample_tools")) is not None:
        return [tool.definition.schema() for tool in own()]
    registry = find_attribute(env, "registry")
    return list(registry.schemas()) if isinstance(registry, ToolRegistry) else [_PLAY]

"""One episode as a conversation: the environment is the user, the model the assistant."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym

from llm_gym.core.outcome import StopReason
from llm_gym.core.splits import stable_hash
from llm_gym.endpoint.client import ChatClient, Reply
from llm_gym.endpoint.errors import ContextFullError
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import (
    add_failure,
    add_turn,
    address,
    begin,
    close_record,
    cut_record,
    describe_env,
    open_record,
)
from llm_gym.errors import ConfigError, LLMGymError

_log = logging.getLogger(__name__)
Context = Literal["history", "observation"]


@dataclass(frozen=True)
class Conversation:
    """How episodes are talked through.

    Args:
        client: The model.
        context: What the model reads: the whole ``history``, or only the current ``observation``.
        system_prompt: Told instead of the environment's rules; "" tells nothing.
        run_seed: With an episode's id and a turn's number it decides what is sampled.
    """

    client: ChatClient
    context: Context = "history"
    system_prompt: str | None = None
    run_seed: int = 0

    def __post_init__(self) -> None:
        if self.context not in ("history", "observation"):
            raise ConfigError(f"context must be 'history' or 'observation', got {self.context!r}")

    def play(
        self, env: gym.Env[str, str], number: int, seed: int, options: dict[str, Any] | None
    ) -> Trajectory:
        """Play one episode and return its record.

        A conversation that outgrows the model's context is cut, and so is one whose environment
        fails: the others go on.
        """
        replies: list[Reply] = []
        try:
            episode = open_record(begin(env, seed, options), describe_env(env), seed, options)
        except LLMGymError:  # a setting that no episode can honour
            raise
        except Exception as error:  # noqa: BLE001 - other people's environments raise anything
            _report(number, error)
            episode = Trajectory(seed=seed, options=options)
            episode.stop_reason = StopReason.ERROR
        else:
            address(episode, self.system_prompt)
            replies = self._talk(env, episode, number)
        episode.episode_id = episode.group = number
        episode.policy = self.client.model
        episode.extra = {
            "tokens_in": [reply.tokens_in for reply in replies],
            "tokens_out": [reply.tokens_out for reply in replies],
            "finish": [reply.finish for reply in replies],
        }
        return close_record(episode)

    def _talk(self, env: gym.Env[str, str], episode: Trajectory, number: int) -> list[Reply]:
        replies: list[Reply] = []
        while not (episode.dones and episode.dones[-1]):
            try:
                asked = self._shown(episode.messages)
                reply = self.client.reply(asked, reply_seed(self.run_seed, number, len(replies)))
            except ContextFullError:
                cut_record(episode, StopReason.CONTEXT)
                break
            replies.append(reply)
            try:
                step = env.step(reply.text)
            except Exception as error:  # noqa: BLE001 - as above
                add_failure(episode, reply.text, _report(number, error))
            else:
                add_turn(episode, reply.text, step)
        return replies

    def _shown(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        if self.context == "history":
            return list(messages)
        return [*(each for each in messages[:1] if each["role"] == "system"), messages[-1]]


def reply_seed(run: int, episode: int, turn: int) -> int:
    """Return the seed of one reply: 31 bits, which every server takes, from its place alone.

    >>> reply_seed(0, 1, 2) == reply_seed(0, 1, 2) != reply_seed(0, 2, 1)
    True
    """
    return stable_hash(f"reply {run}/{episode}/{turn}", 31)


def _report(number: int, error: Exception) -> str:
    what = f"{type(error).__name__}: {error}"
    _log.warning("episode %d: its environment raised %s", number, what)
    return what

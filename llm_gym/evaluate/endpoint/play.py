"""``play``: a served model plays many episodes in parallel, with one thread per conversation.

In a conversation the environment is the user and the model is the assistant.
"""

import logging
import os
import queue
import threading

# Seconds for tokens/s; the episodes themselves do not depend on the clock.
import time  # noqa: TID251
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from llm_gym.core.errors import ConfigError, ContractError, LLMGymError, error_words
from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.core.splits import stable_hash
from llm_gym.episodes import EpisodeWriter, Trajectory, write_episodes
from llm_gym.episodes import play as recording
from llm_gym.evaluate.endpoint.client import (
    ChatClient,
    ContextFullError,
    EndpointError,
    Interrupted,
    Reply,
    ServedEvaluation,
    StoppedError,
)
from llm_gym.registry.lookup import cannot_build
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.registry.user_code import close_user_env
from llm_gym.wrappers import EpisodeLimits
from llm_gym.wrappers.as_text import make_text

_log = logging.getLogger(__name__)
_JOIN_S = 5.0
Context = Literal["history", "observation"]


@dataclass(frozen=True)
class ChatPlayer:
    """Plays episodes as conversations with a served model.

    Args:
        client: The model.
        context: What the model reads: the whole ``history``, or only the current ``observation``.
        system_prompt: Replaces the environment's rules; "" for none.
        run_seed: Combined with episode id and turn number, it seeds the sampling.
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

        If the conversation exceeds the model's context or the environment fails, the episode is
        truncated; other episodes go on.
        """
        replies: list[Reply] = []
        try:
            episode = recording.open_record(
                recording.begin(env, seed, options), recording.describe_env(env), seed, options
            )
        except LLMGymError:  # a setting that no episode can honour
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - others' code raises anything
            _report(number, error)
            episode = Trajectory(seed=seed, options=options)
            episode.stop_reason = StopReason.ERROR
        else:
            recording.replace_system_prompt(episode, self.system_prompt)
            replies = self._converse(env, episode, number)
        episode.episode_id = episode.group = number
        episode.policy = self.client.model
        episode.extra = {
            "tokens_in": [reply.tokens_in for reply in replies],
            "tokens_out": [reply.tokens_out for reply in replies],
            "finish": [reply.finish for reply in replies],
        }
        return recording.close_record(episode)

    def _converse(self, env: gym.Env[str, str], episode: Trajectory, number: int) -> list[Reply]:
        replies: list[Reply] = []
        while not (episode.dones and episode.dones[-1]):
            try:
                messages = self._context(episode.messages)
                reply = self.client.reply(messages, reply_seed(self.run_seed, number, len(replies)))
            except ContextFullError:
                recording.cut_record(episode, StopReason.CONTEXT)
                break
            replies.append(reply)
            try:
                step = recording.play_step(env, reply.text)
                if what := recording.invalid_env_output(*step[:2]):
                    raise ContractError(f"it {what}")
                recording.add_turn(episode, reply.text, step)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                recording.add_failure(episode, reply.text, _report(number, error))
        return replies

    def _context(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        if self.context == "history":
            return list(messages)
        return [*(each for each in messages[:1] if each["role"] == "system"), messages[-1]]


def reply_seed(run: int, episode: int, turn: int) -> int:
    """Return the seed of one reply: 31 bits, because every server takes those.

    >>> reply_seed(0, 1, 2) == reply_seed(0, 1, 2) != reply_seed(0, 2, 1)
    True
    """
    return stable_hash(f"reply {run}/{episode}/{turn}", 31)


def _report(number: int, error: BaseException) -> str:
    what = error_words(error)
    _log.warning("episode %d: its environment raised %s", number, what)
    return what


def play(
    env: EnvSource,
    url: str,
    model: str,
    episodes: int = 100,
    *,
    num_envs: int = 32,
    seed: int = 0,
    split: str | None = None,
    context: Context = "history",
    system_prompt: str | None = None,
    max_turns: int | None = None,
    records: str | os.PathLike[str] | None = None,
    on_end: Callable[[int], None] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **chat: Any,
) -> ServedEvaluation:
    """Let the model served at ``url`` play episodes, and return the evaluation.

    After Ctrl-C (``Interrupted``) or a permanent server failure (``EndpointError``), the finished
    episodes are kept: in ``records``, and in the ``result`` of the exception.

    Args:
        env: An id, a spec, a function that builds an environment, or an environment (rebuilt from
            its spec or copied). ``AsText`` wraps environments that are not text.
        url: URL of an OpenAI-compatible API, such as ``http://127.0.0.1:8000/v1``.
        model: Name of the served model.
        episodes: Number of episodes; episode ``i`` has the seed ``seed + i``.
        num_envs: Conversations in parallel.
        seed: Seed of the first episode.
        split: Play instances of this split only.
        context: What the model reads: ``history`` or ``observation``.
        system_prompt: Replaces the environment's rules; "" for none.
        max_turns: Turns after which an episode is truncated, for environments without an end.
        records: A file to write the episodes to. Until all have ended, they are in a second file,
            whose name ends in ``.partial.jsonl``.
        on_end: Called with the number of episodes that have ended, for a progress bar.
        env_kwargs: Settings of the environment, if ``env`` is an id.
        **chat: Arguments of ``ChatClient``: ``max_tokens``, ``temperature``, ``key_env`` and so on.
    """
    check_range("episodes", episodes, 1)
    check_range("num_envs", num_envs, 1)
    client = ChatClient(url, model, **chat)
    player = ChatPlayer(client, context, system_prompt, seed)
    make = _maker(env, env_kwargs or {}, max_turns)
    envs = [make() for _ in range(min(num_envs, episodes))]
    options = {"split": split} if split else None
    tasks = [(at, seed + at, options) for at in range(episodes)]
    return _play_all(_EpisodeThreads(player, envs, tasks), _EpisodeLog(records, on_end))


def _play_all(threads: "_EpisodeThreads", ended: "_EpisodeLog") -> ServedEvaluation:
    """Play every episode; if something stops it, the finished episodes are kept."""
    began = time.perf_counter()

    def result() -> ServedEvaluation:
        took = time.perf_counter() - began
        played, usage = ended.in_order(), threads.player.client.usage
        env_id = next((episode.env_id for episode in played if episode.env_id), None)
        return ServedEvaluation(env_id, played, usage.tokens_out, took, usage, threads.count)

    try:
        for episode in threads.play():
            ended.add(episode)
    except EndpointError as error:
        error.result = result() if ended.episodes else None
        raise
    except KeyboardInterrupt:
        interrupted = Interrupted("interrupted")
        interrupted.result = result() if ended.episodes else None
        raise interrupted from None
    finally:
        threads.stop()
        ended.save()
    return result()


class _EpisodeThreads:
    """Threads with one environment each, which take episodes from one list until it is empty."""

    def __init__(
        self,
        player: ChatPlayer,
        envs: list[gym.Env[str, str]],
        tasks: list[tuple[int, int, dict[str, Any] | None]],
    ) -> None:
        self.player, self.count = player, len(tasks)
        self._tasks = deque(tasks)
        self._done: queue.SimpleQueue[Trajectory | BaseException] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(env,), daemon=True, name=f"llm-gym-{at}")
            for at, env in enumerate(envs)
        ]

    def play(self) -> Iterator[Trajectory]:
        """Yield episodes as they end; re-raise an exception of a thread."""
        for thread in self._threads:
            thread.start()
        for _ in range(self.count):
            done = self._done.get()
            if isinstance(done, BaseException):
                raise done
            yield done

    def stop(self) -> None:
        """End the running episodes. A thread that hangs in its environment is abandoned."""
        self.player.client.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_JOIN_S)

    def _work(self, env: gym.Env[str, str]) -> None:
        try:
            while True:
                try:
                    task = self._tasks.popleft()
                except IndexError:
                    break
                self._done.put(self.player.play(env, *task))
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by ``play``
            self._done.put(error)
        finally:
            close_user_env(env)


class _EpisodeLog:
    """The finished episodes, in memory and on disk."""

    def __init__(
        self, records: str | os.PathLike[str] | None, on_end: Callable[[int], None] | None
    ) -> None:
        self.episodes: list[Trajectory] = []
        self._on_end, self._path = on_end, None if records is None else Path(records)
        self._writer: EpisodeWriter | None = None
        if self._path is not None:
            stem = self._path.name.removesuffix(".gz").removesuffix(".jsonl")
            partial = self._path.with_name(f"{stem}.partial.jsonl")
            partial.unlink(missing_ok=True)
            self._writer = EpisodeWriter(partial)

    def add(self, episode: Trajectory) -> None:
        self.episodes.append(episode)
        if self._writer is not None:
            self._writer.write(episode)
        if self._on_end is not None:
            self._on_end(len(self.episodes))

    def in_order(self) -> list[Trajectory]:
        return sorted(self.episodes, key=lambda episode: int(episode.episode_id or 0))

    def save(self) -> None:
        if self._writer is None or self._path is None:
            return
        self._writer.close()
        if self.episodes:
            write_episodes(self._path, self.in_order())
        self._writer.path.unlink(missing_ok=True)


def _maker(
    env: EnvSource, settings: Mapping[str, Any], max_turns: int | None
) -> Callable[[], gym.Env[str, str]]:
    if not isinstance(env, str) and settings:
        raise ConfigError(f"env_kwargs are for an id, got {dict(settings)} for {env!r}")

    source = env_source(env)

    def make() -> gym.Env[str, str]:
        if not isinstance(env, str):
            made = make_text(source)
        else:
            try:
                made = make_text(source, **{"rules": "system", **settings})
            except (gym.error.Error, ImportError, TypeError) as error:
                raise cannot_build(env, error) from error
        return made if max_turns is None else EpisodeLimits(made, max_turns=max_turns)

    return make

"""Episodes that advance together: one call of the engine per turn for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import gymnasium as gym

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Tokens, Trajectory
from llm_gym.episodes.play import describe_env
from llm_gym.errors import ContractError
from llm_gym_agents.engines.base import Completion, Engine, Request, Sampling, request_seed
from llm_gym_agents.text.chat import ChatFormat


class ToolCall(Protocol):
    """What came of a tool that the model called."""

    @property
    def result(self) -> object:
        """What the model is told."""
        ...


class ToolTurn(Protocol):
    """What a tool manager made of a reply.

    ``llm_gym.tools.Turn`` has three more, which are used where they are there: ``step``, what an
    environment returned that the turn was played in; ``answer``, what to play in it otherwise;
    and ``done``.
    """

    @property
    def tool_call(self) -> ToolCall | None:
        """None where the reply called no tool."""
        ...


class ToolManager(Protocol):
    """Runs the tools that replies call."""

    def step(self, model_output: str, observation: str) -> ToolTurn:
        """Look for a tool call in ``model_output``, a reply to ``observation``, and run it."""
        ...


@dataclass(slots=True)
class Talk:
    """A conversation as messages and as token ids; what was sampled is kept verbatim."""

    chat: ChatFormat
    ids: list[int] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    log_probs: list[float] = field(default_factory=list)
    turn_of: list[int] = field(default_factory=list)
    replied: bool = False
    _reply: list[int] = field(default_factory=list)

    def open(self, system_prompt: str, text: str) -> None:
        """Begin with a system prompt, which may be empty, and what the model reads first."""
        if system_prompt:
            self.messages.append({"role": "system", "content": system_prompt})
        self.messages.append({"role": "user", "content": text})
        self._append(self.chat.opening(system_prompt, text))

    def hear(self, text: str) -> None:
        """Append what the model reads next."""
        self.messages.append({"role": "user", "content": text})
        self._append(self.chat.following(self._reply, text))
        self._reply, self.replied = [], False

    def say(self, done: Completion) -> str:
        """Append what the model said; return its text."""
        text = self.chat.text_of(done.ids)
        self.messages.append({"role": "assistant", "content": text})
        self._append(done.ids, done.log_probs)
        self._reply, self.replied = done.ids, True
        self.turns += 1
        return text

    def _append(self, ids: list[int], log_probs: list[float] | None = None) -> None:
        self.ids = self.ids + ids
        self.log_probs += [math.nan] * len(ids) if log_probs is None else log_probs
        self.turn_of += [self.turns] * len(ids)


@dataclass(slots=True)
class _Episode:
    env: gym.Env[str, str]
    talk: Talk
    record: Trajectory

    def take(self, reply: str, tools: ToolManager | None) -> bool:
        """Play ``reply``; return whether the episode is over."""
        record = self.record
        turn = None if tools is None else tools.step(reply, record.states[-1])
        observation, reward, terminated, truncated, info = self._played(reply, turn)
        record.states.append(_text(observation, self.env))
        record.actions.append(reply)
        record.rewards.append(float(reward))
        record.terminated.append(bool(terminated))
        record.truncated.append(bool(truncated))
        record.dones.append(bool(terminated or truncated))
        record.infos.append(dict(info))
        if not record.dones[-1] and getattr(turn, "done", False):
            self.cut(StopReason.MAX_STEPS)  # the manager has limits of its own
        if not record.dones[-1]:
            self.talk.hear(observation)
        return record.dones[-1]

    def _played(self, reply: str, turn: ToolTurn | None) -> tuple[Any, Any, bool, bool, Any]:
        """Return what a step of the environment returns, for a reply and what tools made of it."""
        if turn is None:
            return self.env.step(reply)
        step, called = getattr(turn, "step", None), turn.tool_call
        if step is None and (called is None or getattr(turn, "answer", None) is not None):
            return self.env.step(getattr(turn, "answer", None) or reply)
        calls = [call.to_dict() for call in getattr(turn, "tool_calls", [])]
        if step is None:
            info = {"tool_call": True, "tool_calls": calls}
            return str(called.result), 0.0, False, False, info
        _, reward, terminated, truncated, info = step
        return str(called.result), reward, terminated, truncated, {**info, "tool_calls": calls}

    def cut(self, reason: StopReason) -> None:
        """End the episode from outside."""
        self.record.stop_reason = reason
        if self.record.dones:
            self.record.dones[-1] = self.record.truncated[-1] = True

    def finish(self) -> Trajectory:
        self.record.messages = [dict(message) for message in self.talk.messages]
        self.record.tokens = Tokens(
            ids=self.talk.ids, log_probs=self.talk.log_probs, turns=self.talk.turn_of
        )
        return self.record


def play_side_by_side(
    engine: Engine,
    chat: ChatFormat,
    envs: Sequence[gym.Env[str, str]],
    prompts: Sequence[str],
    *,
    system_prompt: str,
    max_turns: int,
    sampling: Sampling,
    seed: int,
    run_seed: int,
    tools: ToolManager | None = None,
) -> list[Trajectory]:
    """Play one episode in each environment; return their records.

    An episode whose next prompt leaves no room for a reply is cut (``context``), and so is one
    that is not over after ``max_turns`` (``max_steps``). What an environment raises is passed on.

    Args:
        engine: Samples.
        chat: How a conversation becomes token ids.
        envs: One for each prompt; they are reset.
        prompts: Said before the first observation.
        system_prompt: Said before that of the environment.
        max_turns: Most turns of an episode.
        sampling: How to sample; the chat format's own end-of-turn ids are added.
        seed: Episode ``i`` has the seed ``seed + i``.
        run_seed: With an episode's place and a turn's number it decides what is sampled.
        tools: Asked about every reply; one that calls a tool is not played.
    """
    stops = dict.fromkeys((*sampling.stop_ids, *chat.stop_ids))
    sampling = replace(sampling, stop_ids=tuple(stops))
    episodes = [
        _begin(env, chat, system_prompt, prompt, seed + at)
        for at, (env, prompt) in enumerate(zip(envs, prompts, strict=True))
    ]
    live = dict(enumerate(episodes))
    for turn in range(max_turns):
        requests = []
        for at, episode in list(live.items()):
            if len(episode.talk.ids) >= engine.context_length:
                live.pop(at).cut(StopReason.CONTEXT)
                continue
            seed_of = request_seed(run_seed, at, turn)
            requests.append(Request(episode.talk.ids, sampling, seed_of, at))
        if not live:
            break
        for done in engine.generate(requests):
            assert isinstance(done.key, int)
            episode = live[done.key]
            if episode.take(episode.talk.say(done), tools):
                del live[done.key]
    for episode in live.values():
        episode.cut(StopReason.MAX_STEPS)
    return [episode.finish() for episode in episodes]


def _begin(
    env: gym.Env[str, str], chat: ChatFormat, system_prompt: str, prompt: str, seed: int
) -> _Episode:
    observation, info = env.reset(seed=seed)
    talk = Talk(chat)
    talk.open(
        _joined(system_prompt, _system_prompt(env, info)), _joined(prompt, _text(observation, env))
    )
    record = Trajectory(states=[observation], seed=seed, reset_info=dict(info), **describe_env(env))
    return _Episode(env, talk, record)


def _system_prompt(env: gym.Env[str, str], info: dict[str, Any]) -> str:
    said = info.get("system_prompt")
    if said is None and env.has_wrapper_attr("system_prompt"):
        said = env.get_wrapper_attr("system_prompt")
    return said if isinstance(said, str) else ""


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _text(observation: object, env: gym.Env[Any, Any]) -> str:
    if not isinstance(observation, str):
        raise ContractError(
            f"episodes need text observations, {env} gave {type(observation).__name__}"
        )
    return observation

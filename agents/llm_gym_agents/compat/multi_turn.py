"""Conversations and episodes for people who want neither TorchRL nor a trainer.

``MultiTurnInferenceEngine`` holds one conversation, a turn at a time, or plays one episode.
``MultiTurnChatHarness`` plays many episodes of an environment side by side. Both keep what was
sampled as token ids and tokenise only what is new, as ``LLMPolicy`` does.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.as_text import ensure_text
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment
from llm_gym.tools import MultiTurnManager
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.compat.side_by_side import Talk, ToolManager, play_side_by_side
from llm_gym_agents.engines.base import Request, Sampling, request_seed
from llm_gym_agents.rollouts.sources import EnvSource, env_source
from llm_gym_agents.text.chat import ChatFormat

MAX_TURNS = 5


class MultiTurnInferenceEngine:
    """One conversation with a model.

    multi_turn = MultiTurnInferenceEngine(engine, system_prompt="You are a helpful assistant.")
    multi_turn.start_conversation("Hello!")
    reply = multi_turn.step()
    multi_turn.observe("And now?")
    reply = multi_turn.step()

    Args:
        engine: From ``create_inference_engine``.
        max_turns: Most replies of a conversation.
        system_prompt: Opens every conversation.
        tool_manager: Answers replies that call a tool; a ``MultiTurnManager``, or whatever has
            its ``step``. It begins anew with every conversation and every episode.
        enable_tools: Whether to ask the tool manager about every reply.
        seed: With it, replies are the same every time; None draws one.
    """

    def __init__(
        self,
        engine: BaseInferenceEngine,
        max_turns: int = MAX_TURNS,
        system_prompt: str = "",
        tool_manager: ToolManager | None = None,
        enable_tools: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        if enable_tools and tool_manager is None:
            raise ConfigError("enable_tools=True needs a tool_manager, got None")
        self.engine, self.max_turns = engine, _check_turns(max_turns)
        self.system_prompt, self.tool_manager = system_prompt, tool_manager
        self.enable_tools = enable_tools
        self.chat = ChatFormat.from_tokenizer(engine.tokenizer)
        self.seed = secrets.randbits(63) if seed is None else seed
        self._talk: Talk | None = None
        self._begun = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, as roles and contents."""
        return self._need_talk().messages

    def start_conversation(self, prompt: str) -> None:
        """Begin a new conversation with what the user says first."""
        self._talk = Talk(self.chat)
        self._talk.open(self.system_prompt, prompt)
        self._begun += 1
        self._reset_tools()

    def observe(self, text: str) -> None:
        """Say what the model reads before its next reply."""
        self._need_talk().hear(text)

    def step(self, max_tokens: int = 256, temperature: float = 0.7, top_p: float = 0.9) -> str:
        """Return the model's reply.

        With tools enabled, the result of a tool that the reply calls is observed at once, so that
        the next ``step`` goes on from it.
        """
        talk = self._need_talk()
        if talk.replied:
            raise ConfigError("the model has just replied; call observe before the next step")
        if talk.turns >= self.max_turns:
            raise ConfigError(
                f"the conversation has had its max_turns={self.max_turns} replies; begin another "
                "with start_conversation"
            )
        sampling = Sampling(max_tokens, temperature, top_p, stop_ids=self.chat.stop_ids)
        seed = request_seed(self.seed, self._begun, talk.turns)
        done = self.engine.engine.generate([Request(talk.ids, sampling, seed)])[0]
        before = talk.messages[-1]["content"]
        reply = talk.say(done)
        if self.enable_tools and self.tool_manager is not None:
            if getattr(self.tool_manager, "done", False):
                self._reset_tools()  # the user has asked something else since
            turn = self.tool_manager.step(reply, before)
            if turn.tool_call is not None and not getattr(turn, "done", False):
                talk.hear(str(turn.tool_call.result))
        return reply

    def format_conversation(self) -> str:
        """Return the conversation as the model reads it, control tokens included."""
        return str(self.engine.tokenizer.decode(self._need_talk().ids, skip_special_tokens=False))

    def run_episode(
        self,
        environment: EnvSource,
        initial_prompt: str = "",
        max_turns: int | None = None,
        *,
        max_tokens: int = 256,
        temperature: float = 0.7,
        top_p: float = 0.9,
        seed: int | None = None,
    ) -> Trajectory:
        """Play one episode and return its record; ``actions`` are the model's replies.

        With tools enabled, a reply that calls one is a turn whose observation is the result, and
        ``extra["tools"]`` is the manager's summary.

        Args:
            environment: An environment, which is used as it is, or something to make one from.
            initial_prompt: Said before the first observation.
            max_turns: Most turns; None for those of this object.
            max_tokens: Most tokens of a reply.
            temperature: Of the sampling.
            top_p: Of the sampling.
            seed: Of the environment; None draws one.
        """
        env, own = _one(environment)
        self._reset_tools(env)
        try:
            record = play_side_by_side(
                self.engine.engine,
                self.chat,
                [env],
                [initial_prompt],
                system_prompt=self.system_prompt,
                max_turns=self.max_turns if max_turns is None else _check_turns(max_turns),
                sampling=Sampling(max_tokens, temperature, top_p),
                seed=_draw(seed),
                run_seed=self.seed,
                tools=self.tool_manager if self.enable_tools else None,
            )[0]
        finally:
            if own:
                env.close()
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            record.extra = {"tools": self.tool_manager.episode_summary()}
        return record

    def _reset_tools(self, *env: gym.Env[str, str]) -> None:
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            self.tool_manager.reset(*env)

    def _need_talk(self) -> Talk:
        if self._talk is None:
            raise ConfigError("there is no conversation yet; begin one with start_conversation")
        return self._talk


class MultiTurnChatHarness:
    """Plays episodes of an environment with a model.

    An episode is a dictionary with ``prompts``, ``states`` (the first), ``actions``,
    ``observations``, ``rewards``, ``dones``, ``infos``, ``total_reward`` and ``num_turns``, and
    besides ``terminated``, ``truncated``, ``stop_reason``, ``success``, ``messages`` and the
    whole ``record``, a ``Trajectory`` with its tokens.

    Args:
        engine: From ``create_inference_engine``.
        environment: An environment, a class, an id, a spec or a function that makes one.
        max_turns: Most turns of an episode; one that reaches them is truncated.
        system_prompt: Said before the environment's own.
        max_tokens: Most tokens of a reply.
        temperature: Of the sampling.
        top_p: Of the sampling.
        seed: Episode ``i`` of a batch has the seed ``seed + i``; None draws one each time.
    """

    def __init__(
        self,
        engine: BaseInferenceEngine,
        environment: EnvSource,
        max_turns: int = MAX_TURNS,
        *,
        system_prompt: str = "",
        max_tokens: int = 128,
        temperature: float = 0.7,
        top_p: float = 0.9,
        seed: int | None = None,
    ) -> None:
        self.engine, self.environment = engine, environment
        self.max_turns, self.system_prompt = _check_turns(max_turns), system_prompt
        self.sampling, self.seed = Sampling(max_tokens, temperature, top_p), seed
        self.chat = ChatFormat.from_tokenizer(engine.tokenizer)

    def run_episode(self, initial_prompt: str) -> dict[str, Any]:
        """Play one episode, in the environment itself if it was given as an object."""
        env, own = _one(self.environment)
        try:
            return self._run([env], [initial_prompt])[0]
        finally:
            if own:
                env.close()

    def run_batch(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """Play an episode for each prompt, all at once, each in an environment of its own."""
        source = env_source(self.environment)
        envs: list[gym.Env[str, str]] = []
        try:
            for _ in prompts:
                envs.append(_make(source))
            return self._run(envs, prompts)
        finally:
            for env in envs:
                env.close()

    def _run(
        self, envs: Sequence[gym.Env[str, str]], prompts: Sequence[str]
    ) -> list[dict[str, Any]]:
        seed = _draw(self.seed)
        records = play_side_by_side(
            self.engine.engine,
            self.chat,
            envs,
            prompts,
            system_prompt=self.system_prompt,
            max_turns=self.max_turns,
            sampling=self.sampling,
            seed=seed,
            run_seed=seed,
        )
        return [_as_dict(prompt, record) for prompt, record in zip(prompts, records, strict=True)]


def _as_dict(prompt: str, record: Trajectory) -> dict[str, Any]:
    return {
        "prompts": [prompt],
        "states": record.states[:1],
        "actions": record.actions,
        "observations": record.states[1:],
        "rewards": record.rewards,
        "dones": record.dones,
        "infos": record.infos,
        "total_reward": record.total_reward,
        "num_turns": record.num_turns,
        "terminated": record.terminated,
        "truncated": record.truncated,
        "stop_reason": record.stop_reason,
        "success": record.success,
        "messages": record.messages,
        "record": record,
    }


def _one(environment: EnvSource) -> tuple[gym.Env[str, str], bool]:
    """Return an environment, and whether it was made here."""
    if isinstance(environment, gym.Env | BaseEnvironment):
        return ensure_text(environment), False
    return _make(environment), True


def _make(source: Any) -> gym.Env[str, str]:
    if isinstance(source, str | EnvSpec):
        return ensure_text(gym.make(source))
    if not callable(source):
        raise ConfigError(
            "environment must be an environment, a class, an id, a spec or a function that makes "
            f"one, got {type(source).__name__}"
        )
    return ensure_text(source())


def _check_turns(turns: int) -> int:
    if turns < 1:
        raise ConfigError(f"max_turns must be at least 1, got {turns}")
    return turns


def _draw(seed: int | None) -> int:
    return secrets.randbits(31) if seed is None else seed

"""Conversations and episodes for programs that use neither TorchRL nor a trainer.

``MultiTurnInferenceEngine`` holds one conversation and plays single episodes;
``MultiTurnChatHarness`` plays many. Both play through ``TextEnvPool``, ``LLMPolicy`` and
``EpisodeCollector``, like the trainer.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_system_prompt
from llm_gym.core.legacy import BaseEnvironment
from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.episodes import Trajectory
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.tools import MultiTurnManager
from llm_gym.wrappers import EpisodeLimits
from llm_gym.wrappers.as_text import ensure_text, make_text
from llm_gym_agents.engines.base import Request, Sampling, request_seed
from llm_gym_agents.engines.inference import BaseInferenceEngine
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.recorder import episode_tokens
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat, TokenConversation

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
        max_turns: Maximum replies of a conversation.
        system_prompt: First message of every conversation.
        tool_manager: Runs the tools that replies call. It is reset for every conversation and
            every episode.
        enable_tools: Whether to use the tool manager.
        seed: The same seed gives the same replies; None draws one.
    """

    def __init__(
        self,
        engine: BaseInferenceEngine,
        max_turns: int = MAX_TURNS,
        system_prompt: str = "",
        tool_manager: MultiTurnManager | None = None,
        enable_tools: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        if enable_tools and tool_manager is None:
            raise ConfigError("enable_tools=True needs a tool_manager, got None")
        check_range("max_turns", max_turns, 1)
        self.engine, self.max_turns = engine, max_turns
        self.system_prompt, self.tool_manager = system_prompt, tool_manager
        self._tools = tool_manager if enable_tools else None
        self.chat = ChatFormat.from_tokenizer(engine.tokenizer)
        self.seed = secrets.randbits(63) if seed is None else seed
        self._conversation: TokenConversation | None = None
        self._messages: list[dict[str, str]] = []
        self._count = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        self._need_conversation()
        return self._messages

    def start_conversation(self, prompt: str) -> None:
        self._conversation = TokenConversation(self.chat)
        self._conversation.read(self.system_prompt, prompt)
        self._messages = [_message("system", self.system_prompt)] if self.system_prompt else []
        self._messages.append(_message("user", prompt))
        self._count += 1
        if self._tools is not None:
            self._tools.reset()

    def observe(self, text: str) -> None:
        """Append what the model reads before its next reply."""
        self._need_conversation().add_observation(text)
        self._messages.append(_message("user", text))

    def step(self, max_tokens: int = 256, temperature: float = 0.7, top_p: float = 0.9) -> str:
        """Return the model's reply.

        With tools enabled, the result of a called tool is appended at once, so that the next
        ``step`` continues from it.
        """
        conversation = self._need_conversation()
        if self._messages[-1]["role"] == "assistant":
            raise ConfigError("the model has just replied; call observe before the next step")
        if conversation.turns >= self.max_turns:
            raise ConfigError(
                f"the conversation has had its max_turns={self.max_turns} replies; begin another "
                "with start_conversation"
            )
        sampling = Sampling(max_tokens, temperature, top_p, stop_ids=self.chat.stop_ids)
        seed = request_seed(self.seed, self._count, conversation.turns)
        done = self.engine.engine.generate([Request(conversation.ids, sampling, seed)])[0]
        conversation.add_reply(done.ids)
        before, reply = self._messages[-1]["content"], self.chat.text_of(done.ids)
        self._messages.append(_message("assistant", reply))
        if self._tools is not None:
            if self._tools.done:
                self._tools.reset()  # the user has asked something new since
            turn = self._tools.step(reply, before)
            if turn.tool_call is not None and not turn.done:
                self.observe(turn.tool_call.result)
        return reply

    def format_conversation(self) -> str:
        """Return the conversation as the model reads it, control tokens included."""
        ids = self._need_conversation().ids
        return str(self.engine.tokenizer.decode(ids, skip_special_tokens=False))

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
        """Play one episode and return its record.

        With tools enabled, a reply that calls a tool is a turn; its observation is the tool's
        result. ``extra["tools"]`` is the manager's summary.

        Args:
            environment: An environment (used directly), a class, an id, a spec or a factory.
            initial_prompt: Text before the first observation.
            max_turns: Maximum turns; None for the constructor's value.
            max_tokens: Most tokens of a reply.
            temperature: Sampling temperature.
            top_p: Probability of nucleus sampling.
            seed: Seed of the environment; None draws one.
        """
        check_range("max_turns", max_turns, 1)
        played = _made_env(environment, self.system_prompt, initial_prompt, self._tools)
        record = _play(
            self.engine,
            [played],
            max_turns=max_turns or self.max_turns,
            sampling=Sampling(max_tokens, temperature, top_p),
            seed=secrets.randbits(31) if seed is None else seed,
            run_seed=self.seed,
        )[0]
        if self._tools is not None:
            record.extra = {"tools": self._tools.episode_summary()}
        return record

    def _need_conversation(self) -> TokenConversation:
        if self._conversation is None:
            raise ConfigError("there is no conversation yet; begin one with start_conversation")
        return self._conversation


class MultiTurnChatHarness:
    """Plays episodes of an environment with a model.

    An episode is a dictionary with ``prompts``, ``states`` (the first), ``actions``,
    ``observations``, ``rewards``, ``dones``, ``infos``, ``total_reward``, ``num_turns``,
    ``terminated``, ``truncated``, ``stop_reason``, ``success``, ``messages`` and the whole
    ``record``, a ``Trajectory`` with its tokens.

    Args:
        engine: From ``create_inference_engine``.
        environment: An environment, a class, an id, a spec or a factory.
        max_turns: Maximum turns; an episode that reaches them is truncated.
        system_prompt: Put before the environment's system prompt.
        max_tokens: Most tokens of a reply.
        temperature: Sampling temperature.
        top_p: Probability of nucleus sampling.
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
        check_range("max_turns", max_turns, 1)
        self.engine, self.environment = engine, environment
        self.max_turns, self.system_prompt = max_turns, system_prompt
        self.sampling, self.seed = Sampling(max_tokens, temperature, top_p), seed

    def run_episode(self, initial_prompt: str) -> dict[str, Any]:
        """Play one episode; an environment given as an object is used directly."""
        return self._run([_made_env(self.environment, self.system_prompt, initial_prompt)])[0]

    def run_batch(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """Play an episode for each prompt, in parallel, each in its own environment."""
        source = env_source(self.environment)
        with ExitStack() as undo:
            envs = []
            for prompt in prompts:
                envs.append(_made_env(source, self.system_prompt, prompt))
                undo.callback(envs[-1].close)
            undo.pop_all()
        return self._run(envs)

    def _run(self, envs: Sequence[_PlayedEnv]) -> list[dict[str, Any]]:
        seed = secrets.randbits(31) if self.seed is None else self.seed
        records = _play(
            self.engine,
            envs,
            max_turns=self.max_turns,
            sampling=self.sampling,
            seed=seed,
            run_seed=seed,
        )
        same = ["actions", "rewards", "dones", "infos", "total_reward", "num_turns"]
        same += ["terminated", "truncated", "stop_reason", "success", "messages"]
        return [
            {name: getattr(record, name) for name in same}
            | {"prompts": [env.prompt], "record": record}
            | {"states": record.states[:1], "observations": record.states[1:]}
            for env, record in zip(envs, records, strict=True)
        ]


class _PlayedEnv(gym.Wrapper[str, str, str, str]):
    """Adds prompts before an episode; with tools, a reply that calls a tool is not played."""

    def __init__(
        self,
        env: gym.Env[str, str],
        system_prompt: str,
        prompt: str,
        tools: MultiTurnManager | None,
        *,
        owned: bool,
    ) -> None:
        super().__init__(env)
        self.own_prompt, self.prompt, self.tools, self.owned = system_prompt, prompt, tools, owned
        self.first = self._seen = ""
        """The first observation, without the prompt."""

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # as gym.Wrapper does
        return self.env.spec  # records name what was played

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self.first, info = self.env.reset(seed=seed, options=options)
        self._seen = self.first
        system = _join(self.own_prompt, find_system_prompt(self.env, info))
        return _join(self.prompt, self.first), {**info, "system_prompt": system}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        if self.tools is None:
            return self.env.step(action)
        turn = self.tools.step(action, self._seen)  # it plays moves in the same environment
        assert turn.tool_call is not None
        self._seen = turn.tool_call.result
        calls = {"tool_calls": [call.to_dict() for call in turn.tool_calls]}
        reward, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {"tool_call": True, **calls}
        if turn.step is not None:
            _, reward, terminated, truncated, info = turn.step
            info = {**info, **calls} if turn.tool_calls else info
        if turn.done and not (terminated or truncated):  # the manager has limits of its own
            truncated, info = True, {**info, "stop_reason": StopReason.MAX_STEPS}
        return self._seen, reward, terminated, truncated, info

    def close(self) -> None:
        if self.owned:  # an environment that the caller passed in stays open
            super().close()


def _play(
    engine: BaseInferenceEngine,
    envs: Sequence[_PlayedEnv],
    *,
    max_turns: int,
    sampling: Sampling,
    seed: int,
    run_seed: int,
) -> list[Trajectory]:
    """Play one episode in each environment, close the owned ones, and return the records.

    Episode ``i`` has the seed ``seed + i``. An episode is truncated when its next prompt leaves no
    room for a reply (``context``), after ``max_turns`` (``max_steps``), or when its environment
    raises (``error``).
    """
    if not envs:
        return []
    chat = ChatFormat.from_tokenizer(engine.tokenizer)
    policy = LLMPolicy(engine.engine, chat, sampling=sampling, run_seed=run_seed)
    rows = iter([EpisodeLimits(env, max_turns=max_turns) for env in envs])
    with closing(EpisodeCollector(TextEnvPool(rows.__next__, len(envs)), policy)) as collector:
        rollout = collector.collect([EpisodeTask(at, seed + at, at) for at in range(len(envs))])
    played = zip(rollout.episodes, rollout.turns, rollout.bootstrap_prompts, strict=True)
    for episode, turns, bootstrap in played:
        episode.tokens = episode_tokens(turns, bootstrap)
    for env, record in zip(envs, rollout.all_episodes, strict=True):
        record.states[:1] = [env.first] if record.states else []
    return rollout.all_episodes


def _made_env(
    environment: EnvSource, system_prompt: str, prompt: str, tools: MultiTurnManager | None = None
) -> _PlayedEnv:
    owned = not isinstance(environment, gym.Env | BaseEnvironment)
    env = make_text(environment) if owned else ensure_text(environment)
    if tools is not None:
        tools.reset(env)
    return _PlayedEnv(env, system_prompt, prompt, tools, owned=owned)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _join(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))

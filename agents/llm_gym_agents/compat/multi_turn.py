"""Conversations and episodes for people who want neither TorchRL nor a trainer.

``MultiTurnInferenceEngine`` holds one conversation, a turn at a time, or plays one episode.
``MultiTurnChatHarness`` plays many episodes of an environment side by side. Episodes are played as
everywhere, by pool, policy and collector.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import gymnasium as gym

from llm_gym.as_text import ensure_text, make_text
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.tools import MultiTurnManager
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.compat.harness_env import Assisted, Introduced, ToolManager
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.engines.base import Request, Sampling, request_seed
from llm_gym_agents.rollouts.collect import EpisodeCollector
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.records import episode_tokens
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.conversation import Conversation

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
        self._talk: Conversation | None = None
        self._messages: list[dict[str, str]] = []
        self._begun = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, as roles and contents."""
        self._need_talk()
        return self._messages

    def start_conversation(self, prompt: str) -> None:
        """Begin a new conversation with what the user says first."""
        self._talk = Conversation(self.chat)
        self._talk.open(self.system_prompt, prompt)
        said = [("system", self.system_prompt), ("user", prompt)]
        self._messages = [_message(*one) for one in said if one != ("system", "")]
        self._begun += 1
        self._reset_tools()

    def observe(self, text: str) -> None:
        """Say what the model reads before its next reply."""
        self._need_talk().hear(text)
        self._messages.append(_message("user", text))

    def step(self, max_tokens: int = 256, temperature: float = 0.7, top_p: float = 0.9) -> str:
        """Return the model's reply.

        With tools enabled, the result of a tool that the reply calls is observed at once, so that
        the next ``step`` goes on from it.
        """
        talk = self._need_talk()
        if self._messages[-1]["role"] == "assistant":
            raise ConfigError("the model has just replied; call observe before the next step")
        if talk.turns >= self.max_turns:
            raise ConfigError(
                f"the conversation has had its max_turns={self.max_turns} replies; begin another "
                "with start_conversation"
            )
        sampling = Sampling(max_tokens, temperature, top_p, stop_ids=self.chat.stop_ids)
        seed = request_seed(self.seed, self._begun, talk.turns)
        done = self.engine.engine.generate([Request(talk.ids, sampling, seed)])[0]
        talk.say(done.ids)
        before, reply = self._messages[-1]["content"], self.chat.text_of(done.ids)
        self._messages.append(_message("assistant", reply))
        if self.enable_tools and self.tool_manager is not None:
            if getattr(self.tool_manager, "done", False):
                self._reset_tools()  # the user has asked something else since
            turn = self.tool_manager.step(reply, before)
            if turn.tool_call is not None and not getattr(turn, "done", False):
                self.observe(str(turn.tool_call.result))
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
        tools = self.tool_manager if self.enable_tools else None
        assisted = env if tools is None else Assisted(env, tools)
        record = _play(
            self.engine,
            [Introduced(assisted, self.system_prompt, initial_prompt, own=own)],
            max_turns=self.max_turns if max_turns is None else _check_turns(max_turns),
            sampling=Sampling(max_tokens, temperature, top_p),
            seed=_draw(seed),
            run_seed=self.seed,
        )[0]
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            record.extra = {"tools": self.tool_manager.episode_summary()}
        return record

    def _reset_tools(self, *env: gym.Env[str, str]) -> None:
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            self.tool_manager.reset(*env)

    def _need_talk(self) -> Conversation:
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
        return self._run([Introduced(env, self.system_prompt, initial_prompt, own=own)])[0]

    def run_batch(self, prompts: Sequence[str]) -> list[dict[str, Any]]:
        """Play an episode for each prompt, all at once, each in an environment of its own."""
        source = env_source(self.environment)
        envs: list[Introduced] = []
        try:
            for prompt in prompts:
                made = make_text(source)
                envs.append(Introduced(made, self.system_prompt, prompt, own=True))
        except BaseException:
            for env in envs:
                env.close()
            raise
        return self._run(envs)

    def _run(self, envs: Sequence[Introduced]) -> list[dict[str, Any]]:
        seed = _draw(self.seed)
        records = _play(
            self.engine,
            envs,
            max_turns=self.max_turns,
            sampling=self.sampling,
            seed=seed,
            run_seed=seed,
        )
        return [_as_dict(env.prompt, record) for env, record in zip(envs, records, strict=True)]


def _play(
    engine: BaseInferenceEngine,
    envs: Sequence[Introduced],
    *,
    max_turns: int,
    sampling: Sampling,
    seed: int,
    run_seed: int,
) -> list[Trajectory]:
    """Play one episode in each environment, close those that are ours, and return the records.

    Episode ``i`` has the seed ``seed + i``. One whose next prompt leaves no room for a reply is cut
    (``context``), and so is one that is not over after ``max_turns`` (``max_steps``), or whose
    environment raises (``error``).
    """
    if not envs:
        return []
    policy = LLMPolicy(
        engine.engine,
        ChatFormat.from_tokenizer(engine.tokenizer),
        sampling=sampling,
        run_seed=run_seed,
    )
    rows = iter([EpisodeLimits(env, max_turns=max_turns) for env in envs])
    with closing(EpisodeCollector(TextEnvPool(rows.__next__, len(envs)), policy)) as collector:
        rollout = collector.collect([EpisodeTask(at, seed + at, at) for at in range(len(envs))])
    for episode, turns, end in zip(rollout.episodes, rollout.turns, rollout.closings, strict=True):
        episode.tokens = episode_tokens(turns, end)
    records = rollout.all_episodes
    for env, record in zip(envs, records, strict=True):
        record.states[:1] = [env.first] if record.states else []
    return records


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
    return make_text(environment), True


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _check_turns(turns: int) -> int:
    if turns < 1:
        raise ConfigError(f"max_turns must be at least 1, got {turns}")
    return turns


def _draw(seed: int | None) -> int:
    return secrets.randbits(31) if seed is None else seed

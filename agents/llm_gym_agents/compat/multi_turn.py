"""``MultiTurnInferenceEngine``: one conversation with a model, a turn at a time, or one episode.

For people who want neither TorchRL nor a trainer. Episodes are played as everywhere, by pool,
policy and collector.
"""

from __future__ import annotations

import secrets

import gymnasium as gym

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.registry.sources import EnvSource
from llm_gym.tools import MultiTurnManager
from llm_gym_agents.compat.harness_env import Assisted, Introduced, ToolManager
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.compat.playing import MAX_TURNS, check_turns, draw_seed, one_env, play_envs
from llm_gym_agents.engines.base import Request, Sampling, request_seed
from llm_gym_agents.text.chat import ChatFormat, TokenConversation


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
        self.engine, self.max_turns = engine, check_turns(max_turns)
        self.system_prompt, self.tool_manager = system_prompt, tool_manager
        self.enable_tools = enable_tools
        self.chat = ChatFormat.from_tokenizer(engine.tokenizer)
        self.seed = secrets.randbits(63) if seed is None else seed
        self._talk: TokenConversation | None = None
        self._messages: list[dict[str, str]] = []
        self._begun = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, as roles and contents."""
        self._need_talk()
        return self._messages

    def start_conversation(self, prompt: str) -> None:
        """Begin a new conversation with what the user says first."""
        self._talk = TokenConversation(self.chat)
        self._talk.start(self.system_prompt, prompt)
        said = [("system", self.system_prompt), ("user", prompt)]
        self._messages = [_message(*one) for one in said if one != ("system", "")]
        self._begun += 1
        self._reset_tools()

    def observe(self, text: str) -> None:
        """Say what the model reads before its next reply."""
        self._need_talk().add_observation(text)
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
        talk.add_reply(done.ids)
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
        env, own = one_env(environment)
        self._reset_tools(env)
        tools = self.tool_manager if self.enable_tools else None
        assisted = env if tools is None else Assisted(env, tools)
        record = play_envs(
            self.engine,
            [Introduced(assisted, self.system_prompt, initial_prompt, own=own)],
            max_turns=self.max_turns if max_turns is None else check_turns(max_turns),
            sampling=Sampling(max_tokens, temperature, top_p),
            seed=draw_seed(seed),
            run_seed=self.seed,
        )[0]
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            record.extra = {"tools": self.tool_manager.episode_summary()}
        return record

    def _reset_tools(self, *env: gym.Env[str, str]) -> None:
        if self.enable_tools and isinstance(self.tool_manager, MultiTurnManager):
            self.tool_manager.reset(*env)

    def _need_talk(self) -> TokenConversation:
        if self._talk is None:
            raise ConfigError("there is no conversation yet; begin one with start_conversation")
        return self._talk


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}

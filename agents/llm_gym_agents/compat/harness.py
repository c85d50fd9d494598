"""``MultiTurnChatHarness``: many episodes of an environment, for people who want no trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_gym.as_text import make_text
from llm_gym.episodes import Trajectory
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym_agents.compat.harness_env import Introduced
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.compat.playing import MAX_TURNS, check_turns, draw_seed, one_env, play_envs
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.text.chat import ChatFormat


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
        self.max_turns, self.system_prompt = check_turns(max_turns), system_prompt
        self.sampling, self.seed = Sampling(max_tokens, temperature, top_p), seed
        self.chat = ChatFormat.from_tokenizer(engine.tokenizer)

    def run_episode(self, initial_prompt: str) -> dict[str, Any]:
        """Play one episode, in the environment itself if it was given as an object."""
        env, own = one_env(self.environment)
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
        seed = draw_seed(self.seed)
        records = play_envs(
            self.engine,
            envs,
            max_turns=self.max_turns,
            sampling=self.sampling,
            seed=seed,
            run_seed=seed,
        )
        return [_as_dict(env.prompt, record) for env, record in zip(envs, records, strict=True)]


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

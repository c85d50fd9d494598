"""Playing an episode in each of some environments, as the classes of this room do."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing

import gymnasium as gym

from llm_gym.as_text import ensure_text, make_text
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment
from llm_gym.registry.sources import EnvSource
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.compat.harness_env import Introduced
from llm_gym_agents.compat.inference import BaseInferenceEngine
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.recorder import episode_tokens
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat

MAX_TURNS = 5


def play_envs(
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
    for episode, turns, end in zip(
        rollout.episodes, rollout.turns, rollout.bootstrap_prompts, strict=True
    ):
        episode.tokens = episode_tokens(turns, end)
    records = rollout.all_episodes
    for env, record in zip(envs, records, strict=True):
        record.states[:1] = [env.first] if record.states else []
    return records


def one_env(environment: EnvSource) -> tuple[gym.Env[str, str], bool]:
    """Return an environment, and whether it was made here."""
    if isinstance(environment, gym.Env | BaseEnvironment):
        return ensure_text(environment), False
    return make_text(environment), True


def check_turns(turns: int) -> int:
    """Return ``turns`` if an episode can have so few."""
    if turns < 1:
        raise ConfigError(f"max_turns must be at least 1, got {turns}")
    return turns


def draw_seed(seed: int | None) -> int:
    """Return ``seed``, or one at random."""
    return secrets.randbits(31) if seed is None else seed

"""``TaskProfile``: the facts about model, environment and estimator that the defaults depend on.

``profile_task`` reads the attributes of the environment and plays a few random episodes, to measure
the length of moves and episodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium as gym

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ConfigError
from llm_gym.core.game import Game
from llm_gym.core.infos import flag
from llm_gym.registry.user_code import close_user_env
from llm_gym.wrappers.as_text import AsText, make_text
from llm_gym_agents.config.store import ConfigStore

_EPISODES = 20
MAX_TURNS_PLAYED = 100
"""Turns after which a random episode is truncated."""
_SOLVED = 300
"""Turns after which a solver's is."""
_PAID_EVERY_TURN = 0.9
"""Share of turns with a positive reward above which longer episodes are better ones."""
_BY_SPREAD = {"norm_by_std", "whiten"}
"""Settings of estimators that divide by a spread."""
_MARK = re.compile(r"[^\W\d]+|\d|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class TaskProfile:
    """What the rules of ``defaults`` read."""

    model: Literal["embedded", "full", "lora"]
    """The built-in small model, a given model, or LoRA adapters on a given model."""
    weights: int = 0
    """Number of weights of a given model; 0 if unknown."""
    thinks: bool = False
    """Whether a given model may think before it replies, by its chat template and vocabulary."""
    env: Literal["suite", "as_text", "other"]
    """A game of this package, an environment under ``AsText``, or another text environment."""
    is_markov: bool = False
    """Whether the current observation is enough to choose a good move."""
    has_potential: bool = False
    """Whether the game has a potential for reward shaping."""
    has_splits: bool = False
    """Whether the instances are split into train, dev and test."""
    move_chars: int = 0
    """Characters of the longest random move; 0 if there is no random player."""
    turns: int | None = None
    """Turn limit of the game; None if it has none."""
    episode_turns: float = 1.0
    """Mean turns of a random episode, at most 100, and 50 if every turn is rewarded."""
    episode_words: float = 32.0
    """Words, digits and punctuation marks in such an episode."""
    worst_reward: float = 0.0
    """The lowest reward of a turn that was seen, 0 at most."""
    random_wins: float = 0.0
    """Share of random episodes that were won."""
    solver_turns: int = 0
    """Turns of the longest episode that a solver won; 0 if there is none."""
    taught: bool = False
    """Whether there is a solver that a warm start may imitate."""
    groups: bool = False
    """Whether the estimator compares episodes of one start by what each earned in all."""
    by_turn: bool = False
    """Whether it can compare their turns instead (``credit``)."""
    by_spread: bool = True
    """Whether it divides by how far they, or its advantages, differ."""
    members: Mapping[str, TaskProfile] = field(default_factory=dict)
    """The environments of a mix, by id; none for a single one."""


def profile_task(config: ConfigStore) -> TaskProfile:
    """Return the profile of what ``config`` trains on what."""
    from llm_gym_agents.algo import get_advantage  # lies behind torch

    estimator = get_advantage(config.training.adv_estimator)
    task = _of_task(config)
    return replace(
        task,
        **_of_model(config),
        taught=task.solver_turns > 0 and config.warm_start.player not in ("random", "file"),
        groups=estimator.needs_groups,
        by_turn="credit" in estimator.settings,
        by_spread=not _BY_SPREAD.isdisjoint(estimator.settings),
    )


def _of_model(config: ConfigStore) -> dict[str, Any]:
    """Return what a given model says of itself; nothing where it cannot be read."""
    from llm_gym_agents.model.load import ModelShape, load_config, load_tokenizer
    from llm_gym_agents.text.chat import ChatFormat

    name, trust = config.model.model_name, config.model.trust_remote_code
    found: dict[str, Any] = {}
    if config.model.is_embedded:
        return found
    with suppress(ConfigError):  # loading it will say why
        shape = load_config(name, trust_remote_code=trust)
        found["weights"] = ModelShape.of(shape, trust_remote_code=trust).parameters
        tokenizer = load_tokenizer(name, trust_remote_code=trust)
        options = config.inference.template_options
        found["thinks"] = ChatFormat.from_tokenizer(tokenizer, template_options=options).thinks
    return found


def _of_task(config: ConfigStore) -> TaskProfile:
    """Return what model and environment say."""
    model = config.model
    kind: Literal["embedded", "full", "lora"] = "full"
    if model.lora_rank:
        kind = "lora"
    elif model.is_embedded:
        kind = "embedded"
    settings, found = config.environment, {}
    for env_id in settings.env_ids:
        # Rules in the first observation would count as words that are read.
        env = make_text(env_id, **{"rules": "system"} | settings.kwargs_of(env_id))
        try:
            found[env_id] = _of(env, kind)
        finally:
            close_user_env(env)
    if settings.mix:
        return _of_mix(found, settings.mix)
    return next(iter(found.values()), TaskProfile(model=kind, env="other"))


def _of_mix(found: Mapping[str, TaskProfile], mix: Mapping[str, float]) -> TaskProfile:
    """Return one profile of several environments: their widest needs and their mean lengths."""
    each, kinds = list(found.values()), {one.env for one in found.values()}
    turns = [one.turns for one in each]
    share = {env_id: weight / sum(mix.values()) for env_id, weight in mix.items()}
    kind: Any = next(one for one in ("other", "as_text", "suite") if one in kinds)
    return replace(
        each[0],
        env=kind,
        is_markov=all(one.is_markov for one in each),
        has_potential=any(one.has_potential for one in each),
        has_splits=any(one.has_splits for one in each),
        move_chars=max(one.move_chars for one in each) * all(one.move_chars for one in each),
        turns=None if None in turns else max(filter(None, turns)),
        episode_turns=sum(found[one].episode_turns * share[one] for one in found),
        episode_words=sum(found[one].episode_words * share[one] for one in found),
        worst_reward=min(one.worst_reward for one in each),
        solver_turns=max(one.solver_turns for one in each),
        members=found,
    )


def _of(env: gym.Env[str, str], kind: Literal["embedded", "full", "lora"]) -> TaskProfile:
    bare = env.unwrapped
    seen = _lengths(env)
    if isinstance(bare, TextEnv):
        return TaskProfile(
            model=kind,
            env="suite",
            is_markov=bare.observation_says_all,
            has_potential=type(bare).potential is not Game.potential,
            has_splits=bare.has_splits,
            turns=bare.max_turns,
            **seen,
        )
    wrapped = env.has_wrapper_attr("book") or isinstance(env, AsText)
    # An environment of Gymnasium's is a Markov decision process: what it shows is its state.
    return TaskProfile(
        model=kind,
        env="as_text" if wrapped else "other",
        is_markov=wrapped,
        turns=env.get_wrapper_attr("book").step_limit() if wrapped else None,
        **seen,
    )


def _lengths(env: gym.Env[str, str]) -> dict[str, Any]:
    """Return how long moves and episodes of a random player are, as ``TaskProfile`` calls them.

    The moves of a solver count too: they may be longer.
    """
    moves, rewards, won = set[str](), list[float](), list[bool]()
    words = episodes = 0
    if env.has_wrapper_attr("random_action"):
        with suppress(NotImplementedError, ConfigError):
            act, legal = map(env.get_wrapper_attr, ("random_action", "legal_actions"))
            for seed in range(_EPISODES):
                episodes += 1
                for observation, move in _play(env, act, seed, rewards, won):
                    moves |= {move, *(legal() or ())}
                    words += len(_MARK.findall(observation)) + len(_MARK.findall(move))
    found: dict[str, Any] = {"worst_reward": min([0.0, *rewards]), "solver_turns": 0}
    for name in ("solver_action", "oracle_action"):
        with suppress(NotImplementedError, ConfigError, AttributeError):
            for seed in range(_EPISODES):
                won_now: list[bool] = []
                solve = env.get_wrapper_attr(name)
                moves |= {move for _, move in _play(env, solve, seed, [], won_now, _SOLVED)}
                if won_now[-1]:
                    found["solver_turns"] = max(found["solver_turns"], len(won_now))
            break
    found["move_chars"] = max(map(len, moves), default=0)
    if rewards:
        found["random_wins"] = sum(won) / episodes
        # Who is paid for every turn will learn to make episodes longer than random ones are.
        longer = sum(reward > 0.0 for reward in rewards) > _PAID_EVERY_TURN * len(rewards)
        found["episode_turns"] = MAX_TURNS_PLAYED / 2 if longer else len(rewards) / episodes
        found["episode_words"] = words / len(rewards) * found["episode_turns"]
    return found


def _play(
    env: gym.Env[str, str],
    act: Callable[[], str],
    seed: int,
    rewards: list[float],
    won: list[bool],
    turns: int = MAX_TURNS_PLAYED,
) -> Iterator[tuple[str, str]]:
    """Yield observation and move of each turn before it is taken; note what it paid and won."""
    observation, _ = env.reset(seed=seed)
    for _ in range(turns):
        move = act()
        yield observation, move
        observation, reward, terminated, truncated, info = env.step(move)
        rewards.append(float(reward))
        won.append(bool(flag(info, "success")))
        if terminated or truncated:
            break


# --- what a run of the embedded model costs on one core -------------------------------------------
# Fitted to the runs of ``benchmarks/results/train_all.json``, with two passes over a batch.

EPISODE_S, TURN_S, WORD_S = 7e-4, 2.5e-4, 5e-5
"""CPU seconds of an episode that is played and learned from, of a turn of it, of a word read."""
WARM_START_BATCH = 96
"""Moves of an optimizer step of a warm start."""
WARM_START_TOKENS = 6144
"""Ids that the embedded model reads in such a step, at most: long texts must not take the run."""
PLAYED = 0.4
"""Share of that for what is only played, as in an evaluation."""


def iteration_seconds(profile: TaskProfile, batch: int, evaluated: float) -> float:
    """Return the CPU seconds of an iteration.

    A trained player plays longer than a random one: a quarter is added where the game allows it.

    Args:
        profile: What is trained on what.
        batch: Episodes of it.
        evaluated: Held-out episodes, on average, that are played after it.
    """
    turns = profile.episode_turns
    longer = max(1.0, min(profile.turns or turns, MAX_TURNS_PLAYED, 1.25 * turns) / turns)
    episode = EPISODE_S + longer * (turns * TURN_S + profile.episode_words * WORD_S)
    return episode * (batch + PLAYED * evaluated)

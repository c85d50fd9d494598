"""``Situation``: what is to be trained on what, as far as defaults depend on it.

An environment is asked for what it says of itself, and played a little at random: how long its
moves are is seen, not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym

from llm_gym.as_text import AsText, make_text
from llm_gym.core.game import Game
from llm_gym.core.text_env import TextEnv
from llm_gym.errors import ConfigError
from llm_gym_agents.config.settings import Settings

EMBEDDED = "tiny"
_EPISODES, _TURNS = 20, 20
_WORD = re.compile(r"[^\s.,:;!?]+|[.,:;!?]+")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the rules of ``defaults`` look at."""

    model: Literal["embedded", "full", "lora"]
    """The built-in one of random weights, a given one, or adapters on one."""
    env: Literal["suite", "as_text", "other"]
    """An environment of ours, one that is put into words, or one that speaks text by itself."""
    says_all: bool = False
    """Whether one observation says all that matters."""
    has_potential: bool = False
    """Whether the game knows how near the goal is."""
    has_splits: bool = False
    """Whether some instances can be kept unseen."""
    move_words: int = 0
    """Words and marks of the longest move that was seen; 0 where nobody plays."""
    move_chars: int = 0
    """Its characters."""
    turns: int | None = None
    """Turns that the game allows."""


def look(config: Settings) -> Situation:
    """Return the situation that ``config`` is for; it must name an environment."""
    model = config.model
    kind: Literal["embedded", "full", "lora"] = "full"
    if model.lora_rank:
        kind = "lora"
    elif (model.local_path or model.model_name) == EMBEDDED:
        kind = "embedded"
    if config.environment.env_id is None:
        return Situation(model=kind, env="other")
    env = make_text(config.environment.env_id, **config.environment.env_kwargs)
    try:
        return _of(env, kind)
    finally:
        env.close()


def _of(env: gym.Env[str, str], kind: Literal["embedded", "full", "lora"]) -> Situation:
    bare = env.unwrapped
    moves = list(_moves(env))
    lengths: dict[str, Any] = {
        "move_words": max((len(_WORD.findall(move)) for move in moves), default=0),
        "move_chars": max(map(len, moves), default=0),
    }
    if isinstance(bare, TextEnv):
        return Situation(
            model=kind,
            env="suite",
            says_all=bare.observation_says_all,
            has_potential=type(bare).potential is not Game.potential,
            has_splits=bare.has_splits,
            turns=bare.max_turns,
            **lengths,
        )
    wrapped = env.has_wrapper_attr("book") or isinstance(env, AsText)
    # An environment of Gymnasium's is a Markov decision process: what it shows is its state.
    return Situation(model=kind, env="as_text" if wrapped else "other", says_all=wrapped, **lengths)


def _moves(env: gym.Env[str, str]) -> Iterator[str]:
    """Yield moves that a random player makes, and those that are legal."""
    if not env.has_wrapper_attr("random_action"):
        return
    act, legal = env.get_wrapper_attr("random_action"), env.get_wrapper_attr("legal_actions")
    try:
        for seed in range(_EPISODES):
            env.reset(seed=seed)
            for _ in range(_TURNS):
                yield from legal() or ()
                move = act()
                yield move
                *_, terminated, truncated, _ = env.step(move)
                if terminated or truncated:
                    break
    except (NotImplementedError, ConfigError):
        return

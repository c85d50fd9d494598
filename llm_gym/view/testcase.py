"""An episode as a test in Python, to be pasted into a file."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from llm_gym.episodes import Trajectory
from llm_gym.episodes.record import ENV_REWARDS

_HEAD = '''"""An episode of {env}, as it was played."""

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import llm_gym  # noqa: F401 - registers the environments

SPEC = {spec}
TURNS = [  # action, reward, what follows
{turns}]


def test_{name}():
    env = gym.make(EnvSpec.from_json(SPEC))
    observation, _ = env.reset(seed={seed}, options={options})
    assert observation == {first}
    for action, wanted, following in TURNS:
        observation, reward, terminated, truncated, _ = env.step(action)
        assert reward == pytest.approx(wanted)
        assert observation == following
    assert (terminated, truncated) == {ended}
'''


def as_test(episode: Trajectory) -> str:
    """Return the source of a test that plays ``episode`` again and compares every turn.

    Every text of the record is written as a literal, so nothing in it becomes code.
    """
    rewards = (episode.extra or {}).get(ENV_REWARDS, episode.rewards)
    turns = [
        f"    ({action!a}, {_number(reward)}, {state!a}),\n"
        for action, reward, state in zip(episode.actions, rewards, episode.states[1:], strict=False)
    ]
    ended = tuple(bool(each and each[-1]) for each in (episode.terminated, episode.truncated))
    words = re.sub(r"\W+", "_", f"{episode.env_id}_seed_{episode.seed}", flags=re.ASCII).lower()
    return _HEAD.format(
        env=re.sub(r"[^\w/:.-]", "?", str(episode.env_id), flags=re.ASCII),
        spec=ascii(json.dumps(episode.env_spec)),
        turns="".join(turns),
        name=words.strip("_"),
        seed=episode.seed,
        options=ascii(episode.options),
        first=ascii((episode.states or [""])[0]),
        ended=ended,
    )


def _number(value: Any) -> str:
    return repr(value) if math.isfinite(value) else f"float({str(value)!r})"

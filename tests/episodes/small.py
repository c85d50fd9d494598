"""An episode of two turns, and a record that is written and read again."""

import json

import pytest

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory


def reread(episode: Trajectory) -> Trajectory:
    line = episode.to_json()
    assert line.isascii()
    assert "\n" not in line
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    return Trajectory.from_json(line)


def small_episode() -> Trajectory:
    return Trajectory(
        states=["a", "b", "c"],
        actions=["x", "y"],
        rewards=[0.0, 1.0],
        dones=[False, True],
        infos=[{"success": False}, {"success": True, "stop_reason": StopReason.WON}],
    )

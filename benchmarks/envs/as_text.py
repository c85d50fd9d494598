"""What ``AsText`` costs per step, compared with the bare environment.

The same actions are played in the bare environment and, as text, through ``AsText``, in alternating
slices. The overhead is the difference in time per step, resets included; the table has the median
of the slices. ``still`` rows are environments that do nothing, so only the overhead is measured.
The aim is less than 15 µs for Discrete actions and observations.

    python -m benchmarks.envs.as_text    # writes results/as_text.json
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym.wrappers import AsText

RESULT = RESULTS / "as_text.json"
AIM_US = 15.0


class Still(gym.Env[Any, Any]):
    """Always returns the same observation."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]):
        self.observation_space, self.action_space = observation_space, action_space
        observation_space.seed(0)
        self.shown = observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.shown, 0.0, False, False, {}


def still(seen: spaces.Space[Any], done: spaces.Space[Any]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: Still(seen, done)


def registered(name: str) -> Callable[[], gym.Env[Any, Any]]:
    env_id = max(env_id for env_id in gym.registry if env_id.startswith(f"{name}-v"))
    return lambda: gym.make(env_id, max_episode_steps=100)


DISCRETE, FOUR = spaces.Discrete(4), spaces.Box(-1, 1, (4,))
PARTS = spaces.Dict(arm=FOUR, grip=DISCRETE, lamp=spaces.MultiBinary(4))
ROWS: dict[str, Callable[[], gym.Env[Any, Any]]] = {
    "still: Discrete, Discrete": still(DISCRETE, DISCRETE),
    "still: Box of 4, Discrete": still(FOUR, DISCRETE),
    "still: Box of 4, Box of 4": still(FOUR, FOUR),
    "still: Dict, Dict": still(PARTS, PARTS),
    "still: 96x96 picture, Discrete": still(spaces.Box(0, 255, (96, 96, 3), np.uint8), DISCRETE),
    **{
        name: registered(name)
        for name in (
            "FrozenLake", "CliffWalking", "Taxi", "Blackjack", "CartPole", "MountainCar", "Acrobot",
            "Pendulum",
        )
    },
}  # fmt: skip


def play(env: gym.Env[Any, Any], actions: list[Any]) -> float:
    """Play ``actions``, a new episode whenever one ends; return the microseconds per step."""
    env.reset(seed=0)
    start = perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return 1e6 * (perf_counter() - start) / len(actions)


def measure(make: Callable[[], gym.Env[Any, Any]], repeats: int, seconds: float) -> dict[str, Any]:
    bare, text = make(), AsText(make(), max_invalid=10**9)
    text.reset(seed=0)
    rng = np.random.default_rng(0)
    moves = [text.book.random_move({}, rng) for _ in range(500)]
    assert text.book.reader is not None
    actions = [text.book.reader.read(move) for move in moves]
    turns = max(1, round(1e6 * seconds / play(text, moves) / len(moves)))
    raw, spoken = [], []
    for repeat in range(repeats):
        pair = [(bare, actions * turns, raw), (text, moves * turns, spoken)]
        for env, played, times in pair if repeat % 2 else pair[::-1]:
            times.append(play(env, played))
    refused = play(text, ["no such move"] * 500 * turns)
    over = [spent - own for own, spent in zip(raw, spoken, strict=True)]
    return {
        "bare_us": round(statistics.median(raw), 2),
        "as_text_us": round(statistics.median(spoken), 2),
        "overhead_us": round(statistics.median(over), 2),
        "overheads_us": [round(value, 2) for value in over],
        "refusal_us": round(refused, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.03, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=31, help="slices per environment")
    parser.add_argument("--only", default="", help="only rows whose name contains this text")
    args = parser.parse_args()
    paths = ("llm_gym/core", "llm_gym/reading", "llm_gym/wrappers/as_text")
    about = provenance(__file__, ("llm-gym", "gymnasium", "numpy"), depends_on=paths)
    rows = []
    gc.disable()
    for name, make in ROWS.items():
        if args.only not in name:
            continue
        figures = measure(make, args.repeats, args.seconds)
        gc.collect()
        rows.append({"name": name, **figures})
        print(json.dumps(rows[-1]))
    result = {**about, "aim_us": AIM_US, "rows": rows}
    if not args.only:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

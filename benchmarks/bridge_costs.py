"""What a step costs, bare and through its bridge: one game of every suite, for ``bridges.py``.

Both play the same replies in slices that take turns, in the processor time of this process. The
worlds of ScienceWorld and OpenEnv run in processes of their own, so what is counted of those is
the talk with them.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from machine import ROOT

import llm_gym  # noqa: F401 - registers the ids


class Pair(NamedTuple):
    """The same steps twice."""

    env: Any
    reply: str
    begin: Callable[[], Any]
    """Begins the bare game."""
    step: Callable[[], Any]
    """Plays one reply in it."""
    replies: int = 5
    slices: int = 60
    through: Callable[[], Any] | None = None
    """Plays one reply through the bridge, where that is more than ``env.step``."""


def make(suite: str, **settings: Any) -> Any:
    return gym.make(f"llm_gym/{suite}-v0", **settings).unwrapped


def seconds(work: Callable[[], Any], times: int) -> float:
    """Return the processor time that ``work`` takes."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def side_by_side(pair: Pair) -> dict[str, float]:
    """Return what a step takes, bare and through the bridge."""
    through = pair.through or (lambda: pair.env.step(pair.reply))
    bare, bridge = [], []
    for _ in range(pair.slices):
        pair.begin()
        bare.append(seconds(pair.step, pair.replies))
        pair.env.reset(seed=1)
        bridge.append(seconds(through, pair.replies))
    pair.env.close()
    return {"bare_us": round(min(bare) * 1e6, 2), "bridge_us": round(min(bridge) * 1e6, 2)}


def textarena() -> Pair:
    import textarena as suite

    game = suite.make("Bandit-v0-raw")

    def step() -> None:
        game.step("[red]")
        game.get_observation()

    env = make("TextArena", env_id="Bandit-v0")
    return Pair(env, "[red]", lambda: game.reset(num_players=1, seed=1), step)


def gem() -> Pair:
    import gem as suite

    name, reply = "game:GuessTheNumber-v0-hard", r"\boxed{99}"
    game = suite.make(name)
    return Pair(
        make("GEM", env_id=name), reply, lambda: game.reset(seed=1), lambda: game.step(reply)
    )


def reasoning_gym() -> Pair:
    import reasoning_gym as suite
    from reasoning_gym.utils import extract_answer

    rows = suite.create_dataset("chain_sum", seed=1, size=10)
    reply, row = "<answer>1</answer>", rows[1]
    env = make("ReasoningGym", dataset="chain_sum")
    score = lambda: rows.score_answer(extract_answer(reply), row)  # noqa: E731
    return Pair(env, reply, lambda: None, score, replies=1, slices=300)


def pettingzoo() -> Pair:
    from pettingzoo.classic import connect_four_v3

    game = connect_four_v3.env()

    def step() -> None:
        game.step(3)
        observation, *_ = game.last()
        game.step(game.action_space("player_1").sample(observation["action_mask"]))
        game.last()

    env = make("PettingZoo", module="pettingzoo.classic.connect_four_v3")
    return Pair(env, "3", lambda: game.reset(seed=1), step, replies=2)


def verifiers() -> Pair:
    env = make("Verifiers", env_id="tiny-sums")
    game, row, loop = env._game, dict(env._rows[1]), asyncio.new_event_loop()
    from llm_gym.bridges.verifiers import _waiting_client

    class Ready:
        async def ask(self, messages: Any) -> str:
            return "42"

    client = _waiting_client(Ready())  # type: ignore[arg-type]

    def rollout() -> None:
        loop.run_until_complete(game._run_rollout_state(dict(row), client, "llm", {}))

    def through() -> None:
        env.reset(seed=1)
        env.step("42")

    return Pair(env, "42", lambda: None, rollout, replies=2, slices=30, through=through)


@cache
def tw_games() -> str:
    """Return a folder with three games that ``tw-make`` has compiled."""
    folder = Path(tempfile.mkdtemp())
    tool = [sys.executable, str(Path(sys.executable).parent / "tw-make"), "custom"]
    size = ["--world-size", "2", "--nb-objects", "3", "--quest-length", "2"]
    for seed in ("7", "8", "9"):
        out = ["--seed", seed, "--output", str(folder / f"game{seed}.z8")]
        subprocess.run([*tool, *size, *out], check=True, capture_output=True)
    return str(folder)


def textworld() -> Pair:
    import textworld as suite

    env = make("TextWorld", games=f"{tw_games()}/game7.z8")
    game = suite.start(f"{tw_games()}/game7.z8", env.asked())
    return Pair(env, "look", game.reset, lambda: game.step("look"), slices=30)


def jericho() -> Pair:
    import jericho as suite

    game = suite.FrotzEnv(f"{tw_games()}/game7.z8", seed=1)
    env = make("Jericho", games=f"{tw_games()}/game7.z8")

    def step() -> None:
        game.step("look")
        game.victory(), game.game_over(), game.get_max_score()

    return Pair(env, "look", game.reset, step)


def scienceworld() -> Pair:
    import scienceworld as suite

    task = "find-living-thing"
    env, world = make("ScienceWorld", task=task), suite.ScienceWorldEnv("", envStepLimit=10**9)

    def begin() -> None:
        world.load(task, 0, "easy")
        world.reset()

    return Pair(env, "look around", begin, lambda: world.step("look around"), slices=8)


@cache
def openenv_url() -> str:
    """Return where OpenEnv's own server serves one of our games, for as long as this runs."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    script = ROOT / "benchmarks" / "peers" / "openenv_server.py"
    line = [sys.executable, str(script), "llm_gym/GuessTheNumber-v0", str(port)]
    _SERVERS.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    return f"http://127.0.0.1:{port}"


_SERVERS: list[subprocess.Popen[bytes]] = []


@contextmanager
def servers() -> Iterator[None]:
    """End, in the end, what was started."""
    try:
        yield
    finally:
        for server in _SERVERS:
            server.terminate()


def openenv() -> Pair:
    from openenv.core.generic_client import GenericEnvClient

    client = GenericEnvClient(base_url=openenv_url()).sync()
    env = make("OpenEnv", url=openenv_url(), observation_field="message")
    step = lambda: client.step({"message": "x"})  # noqa: E731
    return Pair(env, "x", lambda: client.reset(seed=1), step, replies=3, slices=20)


PAIRS: dict[str, Callable[[], Pair]] = {
    f.__name__: f
    for f in (
        *(textarena, gem, reasoning_gym, pettingzoo, verifiers, textworld, jericho),
        *(scienceworld, openenv),
    )
}

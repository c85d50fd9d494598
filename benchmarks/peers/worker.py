"""One suite in one process, playing on request.

The same file runs in our environment and in the peers', so the same loop times every suite. It
reads one JSON request per line and answers with one line of JSON. Times are measured here, so they
do not include the pipe.

    {"op": "make", "game": "lake", "id": "FrozenLake-v0-raw", "kwargs": {}, "actions": ["[up]"]}
    {"op": "play", "game": "lake", "seconds": 0.3}
    {"op": "reset", "game": "lake", "seconds": 0.3, "most": 300}

``make`` answers with the versions of the packages, or with an ``error``.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from itertools import cycle, islice
from timeit import default_timer as now
from typing import Any

PACKAGES = {
    "llm_gym": ["llm-gym", "gymnasium", "numpy"],
    "gem": ["gem-llm"],
    "textarena": ["textarena"],
}
CHUNK = 256  # maximum steps between two readings of the clock


class GymGame:
    """A game with ``reset() -> (obs, info)`` and a five-tuple ``step``: llm_gym and GEM."""

    def __init__(self, suite: str, request: dict[str, Any]) -> None:
        if suite == "gem":
            import gem
            import gem.envs

            self.env = gem.make(request["id"], **request["kwargs"])
        else:
            import gymnasium

            import llm_gym  # noqa: F401  # registers the ids

            self.env = gymnasium.make(request["id"], **request["kwargs"])
        self.actions = cycle(request["actions"])
        self.env.reset(seed=0)

    def reset(self) -> None:
        self.env.reset()

    def play(self, count: int) -> tuple[int, float]:
        """Play ``count`` actions; return how many episodes ended, and the seconds."""
        env, ended = self.env, 0
        start = now()
        for action in islice(self.actions, count):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                ended += 1
                env.reset()
        return ended, now() - start


class ChoosingGame(GymGame):
    """A game of ours that chooses random usable moves itself while the clock is stopped."""

    def play(self, count: int) -> tuple[int, float]:
        env, ended, seconds = self.env, 0, 0.0
        choose = env.unwrapped.random_action
        for _ in range(count):
            action = choose()
            start = now()
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                ended += 1
                env.reset()
            seconds += now() - start
        return ended, seconds


class ArenaGame:
    """A game of TextArena: observations are fetched, and the reward comes with ``close``."""

    def __init__(self, suite: str, request: dict[str, Any]) -> None:
        import textarena

        self.env = textarena.make(request["id"], **request["kwargs"])
        self.players, self.actions = request["players"], cycle(request["actions"])
        self.env.reset(num_players=self.players, seed=0)

    def reset(self) -> None:
        self.env.reset(num_players=self.players)
        self.env.get_observation()

    def play(self, count: int) -> tuple[int, float]:
        env, ended, players = self.env, 0, self.players
        start = now()
        for action in islice(self.actions, count):
            done, _ = env.step(action)
            if done:
                ended += 1
                env.close()
                env.reset(num_players=players)
            env.get_observation()
        return ended, now() - start


class VectorGame:
    """Many environments in one process; a finished row begins again at its next step."""

    def __init__(self, suite: str, request: dict[str, Any]) -> None:
        self.envs = request["envs"]
        if suite == "gem":
            import gem.envs
            from gem.vector.vector_env import AutoresetMode

            self.env = gem.make_vec(
                [request["id"]] * self.envs, async_mode=request["threads"], **request["kwargs"]
            )
            self.env.autoreset_mode = AutoresetMode.NEXT_STEP
        else:
            import llm_gym

            self.env = llm_gym.make_vec(request["id"], self.envs, **request["kwargs"])
        actions = iter(cycle(request["actions"]))
        batches = [list(islice(actions, self.envs)) for _ in request["actions"]]
        self.batches = cycle(batches)
        self.env.reset(seed=0)

    def play(self, count: int) -> tuple[int, float]:
        """Play at least ``count`` actions; a step of all rows is as many as there are rows."""
        ended = 0
        start = now()
        for actions in islice(self.batches, -(-count // self.envs)):
            _, _, terminated, truncated, _ = self.env.step(actions)
            ended += int((terminated | truncated).sum())
        return ended, now() - start


def make(suite: str, request: dict[str, Any]) -> Any:
    if request["envs"]:
        return VectorGame(suite, request)
    if suite == "textarena":
        return ArenaGame(suite, request)
    return (GymGame if request["actions"] else ChoosingGame)(suite, request)


def play(game: Any, seconds: float) -> dict[str, float]:
    """Step ``game`` for ``seconds``, resetting it whenever an episode ends."""
    steps = episodes = 0
    elapsed = 0.0
    chunk = rows = getattr(game, "envs", 1)
    begin = now()
    while now() - begin < seconds:
        ended, spent = game.play(chunk)
        episodes, elapsed, steps = episodes + ended, elapsed + spent, steps + chunk
        # Doubled, so that a game of ten steps a second does not overrun its slice.
        chunk = min(2 * chunk, CHUNK * rows)
    return {"steps": steps, "episodes": episodes, "seconds": elapsed}


def reset(game: Any, seconds: float, most: int) -> list[float]:
    """Return the times of single resets: at most ``most``, for about ``seconds``."""
    times: list[float] = []
    begin = now()
    while len(times) < most and now() - begin < seconds:
        start = now()
        game.reset()
        times.append(now() - start)
    return times


def in_short(text: str) -> str:
    """Return the first sentence or so, without the colours of a terminal."""
    plain = re.sub(r"\x1b\[\d+m", "", text)
    return " ".join(plain.split()).strip("* ")[:95]


def main(suite: str) -> None:
    """Answer requests until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print; only answers may go out
    games: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = None
        if request["op"] == "make":
            try:
                games[request["game"]] = make(suite, request)
                answer = {name: importlib.metadata.version(name) for name in PACKAGES[suite]}
            except Exception as error:  # noqa: BLE001 - whatever a peer raises is why it is left out
                answer = {"error": f"{type(error).__name__}: {in_short(str(error))}"}
        elif request["op"] == "play":
            answer = play(games[request["game"]], request["seconds"])
        else:
            answer = reset(games[request["game"]], request["seconds"], request["most"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""One suite in one process, playing on request.

The same file runs in our environment and in the peers', so that every suite is timed by the same
loop. It reads one JSON request per line and answers each with one line of JSON; between requests
it waits and costs nothing. Clocks are read here, so the pipe is not part of any figure.

    {"op": "make", "game": "lake", "id": "FrozenLake-v0-raw", "kwargs": {}, "actions": ["[up]"]}
    {"op": "play", "game": "lake", "seconds": 0.3}
    {"op": "reset", "game": "lake", "seconds": 0.3, "most": 300}
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from itertools import cycle, islice
from timeit import default_timer as now
from typing import Any

PACKAGES = {
    "llm_gym": ["llm-gym", "gymnasium", "numpy"],
    "gem": ["gem-llm"],
    "textarena": ["textarena"],
}
CHUNK = 256  # most steps between two looks at the clock


class GymGame:
    """A game with ``reset() -> (obs, info)`` and a five-tuple ``step``: llm_gym and GEM."""

    def __init__(self, suite: str, env_id: str, kwargs: dict[str, Any]) -> None:
        if suite == "gem":
            import gem
            import gem.envs

            self.env = gem.make(env_id, **kwargs)
        else:
            import gymnasium

            import llm_gym  # noqa: F401  # registers the ids

            self.env = gymnasium.make(env_id, **kwargs)
        self.env.reset(seed=0)

    def reset(self) -> None:
        self.env.reset()

    def play(self, actions: Any) -> int:
        """Play every action and return how many episodes ended."""
        env, ended = self.env, 0
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                ended += 1
                env.reset()
        return ended


class ArenaGame:
    """A game of TextArena: observations are fetched, and the reward comes with ``close``."""

    def __init__(self, suite: str, env_id: str, kwargs: dict[str, Any]) -> None:
        import textarena

        self.env = textarena.make(env_id, **kwargs)
        self.env.reset(num_players=1, seed=0)

    def reset(self) -> None:
        self.env.reset(num_players=1)
        self.env.get_observation()

    def play(self, actions: Any) -> int:
        """Play every action and return how many episodes ended."""
        env, ended = self.env, 0
        for action in actions:
            done, _ = env.step(action)
            if done:
                ended += 1
                env.close()
                env.reset(num_players=1)
            env.get_observation()
        return ended


def play(game: Any, actions: Any, seconds: float) -> dict[str, float]:
    """Step ``game`` for ``seconds``, resetting it whenever an episode ends."""
    steps = episodes = 0
    chunk = 1  # doubled, so that a game of ten steps a second does not overrun its slice
    start = now()
    while (elapsed := now() - start) < seconds:
        episodes += game.play(islice(actions, chunk))
        steps += chunk
        chunk = min(2 * chunk, CHUNK)
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


def main(suite: str) -> None:
    """Answer requests until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print; only answers may go out
    games: dict[str, tuple[Any, Any]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = None
        if request["op"] == "make":
            kind = ArenaGame if suite == "textarena" else GymGame
            game = kind(suite, request["id"], request["kwargs"])
            games[request["game"]] = game, cycle(request["actions"])
            answer = {name: importlib.metadata.version(name) for name in PACKAGES[suite]}
        else:
            game, actions = games[request["game"]]
            if request["op"] == "play":
                answer = play(game, actions, request["seconds"])
            else:
                answer = reset(game, request["seconds"], request["most"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""OpenEnv's own server around one of our games: what ``benchmarks/serve.py`` compares with.

    python -m benchmarks.peers.openenv_server ENV PORT

It is made as OpenEnv's template makes one: an ``Environment``, its action and observation as
Pydantic models, ``create_fastapi_app`` and uvicorn with its defaults, without access logs.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

import llm_gym  # noqa: F401 - registers the game


class TextAction(Action):
    """What the player writes."""

    message: str


class TextObservation(Observation):
    """What the game says."""

    message: str
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = {}


class Game(Environment):
    """One of our games."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    env_id = ""

    def __init__(self) -> None:
        super().__init__()
        self._env = gym.make(self.env_id)
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> TextObservation:
        message, info = self._env.reset(seed=seed)
        self._state = State(episode_id=episode_id)
        return TextObservation(message=message, info=info)

    def step(
        self, action: TextAction, timeout_s: float | None = None, **kwargs: Any
    ) -> TextObservation:
        message, reward, terminated, truncated, info = self._env.step(action.message)
        self._state.step_count += 1
        return TextObservation(
            message=message,
            reward=reward,
            done=terminated or truncated,
            terminated=terminated,
            truncated=truncated,
            info=info,
        )

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    Game.env_id = sys.argv[1]
    app = create_fastapi_app(Game, TextAction, TextObservation, max_concurrent_envs=4096)
    uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="critical")

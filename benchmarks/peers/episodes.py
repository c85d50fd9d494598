"""Episodes as a peer's trainer wants them, and the clock of a run on a shared GPU.

Needs gymnasium and transformers only, so that it can be imported beside any trainer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym

import llm_gym  # noqa: F401  (registers the environments)
from llm_gym_agents.text.chat import ChatFormat

ENV_ID = "llm_gym/GuessTheNumberEasy-v0"
ENV_KWARGS: dict[str, Any] = {"rules": "system", "penalty": 0.1}
BATCH, GROUP, MAX_TOKENS = 64, 8, 3


class Row:
    """One episode as TRL wants it: a prompt, a completion, and which of it the model wrote."""

    def __init__(self, env: gym.Env[str, str], chat: ChatFormat, seed: int, told: bool) -> None:
        self.env, self.chat = env, chat
        observation, info = env.reset(seed=seed)
        self.prompt = chat.opening(info["system_prompt"] if told else "", observation)
        self.completion: list[int] = []
        self.mask: list[int] = []
        self.score, self.done = 0.0, False

    def move(self, reply: list[int]) -> None:
        """Play a reply, and append it and what is said to it."""
        said, reward, terminated, truncated, _ = self.env.step(self.chat.text_of(reply))
        self.completion += reply
        self.mask += [1] * len(reply)
        self.score += float(reward)
        self.done = terminated or truncated
        if not self.done:
            heard = self.chat.following(reply, said)
            self.completion += heard
            self.mask += [0] * len(heard)


def fields(rows: list[Row]) -> dict[str, Any]:
    """Return what ``rollout_func`` is asked for, without log-probs."""
    return {
        "prompt_ids": [row.prompt for row in rows],
        "completion_ids": [row.completion for row in rows],
        "env_mask": [row.mask for row in rows],
        "score": [row.score for row in rows],
    }


class Clock:
    """Writes a row for each batch; ends the process when its time is over."""

    def __init__(self, path: Path, seconds: float, episodes: int) -> None:
        self.path, self.seconds, self.episodes, self.updates = path, seconds, episodes, 0
        self.begun = perf_counter()

    def note(self, success: float, **more: float) -> None:
        """Note a batch that was played and learned from."""
        self.updates += 1
        took = perf_counter() - self.begun
        row = {"updates": self.updates, "episodes": self.updates * self.episodes, "seconds": took}
        with self.path.open("a") as file:
            file.write(json.dumps(row | {"success": success} | more) + "\n")
        if took > self.seconds:
            sys.stdout.flush()
            os._exit(0)  # engines of both sides have processes that would be waited for

"""Episodes as a peer's trainer wants them: ids, and which of them the model wrote.

Needs gymnasium and transformers only, so that it can be imported beside any trainer.
"""

from __future__ import annotations

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

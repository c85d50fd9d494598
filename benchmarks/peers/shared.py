"""What all sides of ``trl.py`` share: the game, the arguments of a run, and how it is measured.

The game is GuessTheNumber from 1 to 10 in four turns: reward 1 for the number, -0.1 for a reply
that cannot be used, the whole conversation as context. An update has 64 episodes; GRPO plays eight
of each start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import torch
from transformers import PreTrainedTokenizerBase

from llm_gym_agents import LLMPolicy, rollout
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import load_model
from llm_gym_agents.text.chat import ChatFormat

ENV_ID = "llm_gym/GuessTheNumberEasy-v0"
ENV_KWARGS: dict[str, Any] = {"rules": "system", "penalty": 0.1}
BATCH, GROUP = 64, 8
HELD_OUT = 5_000_000
"""Seed of the first episode that success is measured on; no training episode has it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of the model to begin with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--parts", type=int, default=2, help="optimizer steps of a pass")
    parser.add_argument("--passes", type=int, default=1, help="over every batch")
    parser.add_argument("--seconds", type=float, default=180.0, help="of training")
    parser.add_argument("--points", type=int, default=0, help="evaluations during training")
    parser.add_argument("--episodes", type=int, default=400, help="of an evaluation")
    parser.add_argument("--gpu", action="store_true", help="train on a GPU, with vLLM")


def complete(args: argparse.Namespace) -> argparse.Namespace:
    """Add settings that follow from CPU or GPU, the same on all sides."""
    args.tokens = 8 if args.gpu else 3  # of a reply
    args.entropy = 0.0 if args.gpu else 0.01
    args.vllm = {"cache_gb": 8, "max_model_len": 1024}
    return args


class Row:
    """One episode as peers need it: a prompt, a completion, and the tokens that the model wrote."""

    def __init__(
        self, env: gym.Env[str, str], chat: ChatFormat, seed: int, has_rules: bool
    ) -> None:
        self.env, self.chat = env, chat
        observation, info = env.reset(seed=seed)
        self.prompt = chat.opening(info["system_prompt"] if has_rules else "", observation)
        self.completion: list[int] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []
        """The turn of each token of the completion; -1 for tokens of the environment."""
        self.rewards: list[float] = []
        self.done, self.success = False, False

    def move(self, reply: list[int], logprobs: list[float]) -> None:
        """Play a reply; append it and the next observation."""
        text, reward, terminated, truncated, info = self.env.step(self.chat.text_of(reply))
        self.done, self.success = terminated or truncated, bool(info.get("success"))
        read = [] if self.done else self.chat.following(reply, text)
        self.completion += reply + read
        self.turns += [len(self.rewards)] * len(reply) + [-1] * len(read)
        self.rewards.append(float(reward))
        self.logprobs += logprobs + [0.0] * len(read)


def padded(read: list[list[int]], pad: int) -> dict[str, torch.Tensor]:
    """Return conversations as ``generate`` wants them: left-padded."""
    longest = max(map(len, read))
    ids = [[pad] * (longest - len(each)) + each for each in read]
    mask = [[0] * (longest - len(each)) + [1] * len(each) for each in read]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def replies_in(out: torch.Tensor, chat: ChatFormat) -> list[list[int]]:
    """Return each reply up to and including its end token."""
    replies: list[list[int]] = out.tolist()
    for reply in replies:
        ends = [at for at, token in enumerate(reply) if token in chat.stop_ids]
        del reply[ends[0] + 1 if ends else len(reply) :]
    return replies


class Curve:
    """Success of a run: of every batch as it was sampled, and on held-out episodes.

    The clock counts CPU seconds of the process, or wall-clock seconds on a GPU, and stops during
    evaluations. Only ``state_dict()`` and ``device`` of the model are used.
    """

    def __init__(
        self, lm: Any, tokenizer: PreTrainedTokenizerBase, args: argparse.Namespace
    ) -> None:
        self.lm, self.tokenizer, self.args = lm, tokenizer, args
        self.now = perf_counter if args.gpu else process_time
        self.batches: list[dict[str, float]] = []
        self.held_out: list[dict[str, float]] = []
        self.paused_s = 0.0
        self.started = self.now()
        self._evaluate(0.0)

    def note(self, success: float) -> bool:
        """Record a batch after its update; return whether the time is over."""
        took = self.now() - self.started - self.paused_s
        updates = len(self.batches) + 1
        point = {"updates": updates, "episodes": updates * BATCH, "seconds": round(took, 3)}
        self.batches.append(point | {"success": success})
        over = took >= self.args.seconds
        every = self.args.seconds / max(1, self.args.points)
        if over or (self.args.points and took >= every * len(self.held_out)):
            self._evaluate(took)
        return over

    def _evaluate(self, took: float) -> None:
        started = self.now()
        lm = load_model(str(self.args.folder), dtype="float32").to(self.lm.device)
        lm.load_state_dict(self.lm.state_dict())  # trainers wrap their model's forward pass
        policy = LLMPolicy(
            TransformersEngine(lm, tokenizer=self.tokenizer),
            ChatFormat.from_tokenizer(self.tokenizer),
            sampling=Sampling(max_tokens=self.args.tokens),
            system_prompt=None if self.args.gpu else "",
        )
        episodes = self.args.episodes
        done = rollout(ENV_ID, policy, episodes, num_envs=128, seed=HELD_OUT, env_kwargs=ENV_KWARGS)
        point = {"updates": len(self.batches), "episodes": len(self.batches) * BATCH}
        self.held_out.append(point | {"seconds": round(took, 3), "success": done.success})
        self.paused_s += self.now() - started

    def finish(self) -> None:
        """Print the row of this run and end the process without waiting for engines."""
        batches = self.batches[-1:] if self.args.points else self.batches
        row = {"held_out": self.held_out, "batches": batches}
        print("\n" + json.dumps(row), flush=True)
        sys.stderr.flush()
        os._exit(0)

"""A warm start: teach a model the language of a game by imitation, not how to play it.

Fed with *random legal* moves, unfiltered, a model learns to write moves and still plays at
chance; reinforcement learning then has something to choose from. Fed with a solver's episodes it
becomes plain behaviour cloning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from llm_gym.core.text_env import TextEnv
from llm_gym_agents.batch.sequences import Inputs, Sequences
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.text.chat import ChatFormat


class Example(NamedTuple):
    """One turn to imitate."""

    prompt_ids: list[int]
    reply_ids: list[int]


def examples(
    env: TextEnv,
    chat: ChatFormat,
    turns: int,
    *,
    player: Callable[[TextEnv], str] = TextEnv.random_action,
    seed: int = 0,
    split: str | None = "train",
    system_prompt: str | None = None,
) -> list[Example]:
    """Return ``turns`` turns of ``player``, each after the observation alone.

    ``system_prompt`` is told instead of what the environment says, as in ``LLMPolicy``.
    """
    options = {"split": split} if split and env.has_splits else None
    found: list[Example] = []
    while len(found) < turns:
        observation, info = env.reset(seed=seed, options=options)
        seed += 1
        done = False
        while not done and len(found) < turns:
            move = player(env)
            rules = info.get("system_prompt", "") if system_prompt is None else system_prompt
            prompt_ids = chat.opening(rules, observation)
            found.append(Example(prompt_ids, chat.reply(move)))
            observation, _, terminated, truncated, _ = env.step(move)
            done = terminated or truncated
    return found


def imitate(
    model: PolicyValueModel,
    data: Sequence[Example],
    *,
    steps: int = 150,
    batch_size: int = 128,
    learning_rate: float = 3e-3,
    ramp: int = 10,
    seed: int = 0,
) -> list[float]:
    """Train ``model`` to write the replies of ``data``; return the loss of each step."""
    optimizer = torch.optim.AdamW(model.lm.parameters(), lr=learning_rate)
    order = np.random.default_rng(seed)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / ramp)
        batch = [data[at] for at in order.integers(len(data), size=batch_size)]
        scores = model(*_inputs(batch))
        loss = -scores.log_prob_T.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.lm.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _inputs(batch: Sequence[Example]) -> Inputs:
    packed = Sequences()
    for prompt_ids, reply_ids in batch:
        packed.read(prompt_ids, new_sequence=True)
        packed.learn(reply_ids)
    return packed.inputs()

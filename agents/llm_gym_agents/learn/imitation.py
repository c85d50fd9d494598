"""Imitation: a model learns to write what a player wrote.

Fed with *random legal* moves, unfiltered, a model learns to write moves and still plays at
chance; reinforcement learning then has something to choose from. Fed with a solver's episodes it
becomes plain behaviour cloning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from llm_gym.core.env import TextEnv
from llm_gym_agents.batch.sequences import Inputs, Sequences
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.text.chat import ChatFormat


class Example(NamedTuple):
    """One turn to imitate."""

    prompt_ids: list[int]
    """What the model reads before it; in a conversation, what it reads after the last reply."""
    reply_ids: list[int]


Dialogue = tuple[Example, ...]
"""Turns that are read one after another, each after all before it."""


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
    data: Sequence[Example | Dialogue],
    *,
    steps: int = 150,
    batch_size: int = 128,
    learning_rate: float = 3e-3,
    ramp: int = 10,
    fall: tuple[float, float] = (1.0, 1.0),
    seed: int = 0,
    micro_batch_tokens: int | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train ``model`` to write the replies of ``data``; return the loss of each step.

    Args:
        model: Trained in place, where it is and in its own precision.
        data: Turns, or conversations whose replies are all learned.
        steps: Optimizer steps.
        batch_size: Turns of a step.
        learning_rate: Reached after ``ramp`` steps.
        ramp: Steps over which the rate rises.
        fall: Factor on the rate at the beginning, and where it falls to by the end, by a line.
        seed: Decides which examples come when.
        micro_batch_tokens: Most ids read at once; None reads a batch at once. Bounds memory and
            changes no gradient.
        on_step: Called with the number of steps done and the loss.
    """
    talks = [(each,) if isinstance(each, Example) else each for each in data]
    mean_turns = sum(map(len, talks)) / len(talks)
    drawn = max(1, round(batch_size / mean_turns))
    weights = [weight for weight in model.lm.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=learning_rate)
    order = np.random.default_rng(seed)
    losses = []
    for step in range(steps):
        factor = min(1.0, (step + 1) / ramp) * _between(*fall, step / steps)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        batch = [talks[at] for at in order.integers(len(talks), size=drawn)]
        optimizer.zero_grad(set_to_none=True)
        loss = _backward(model, batch, micro_batch_tokens)
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        losses.append(loss)
        if on_step is not None:
            on_step(step + 1, loss)
    return losses


def _between(start: float, end: float, share: float) -> float:
    """Return where one is after ``share`` of the way.

    >>> _between(1.0, 0.5, 0.5)
    0.75
    """
    return start + share * (end - start)


def write_losses(folder: Path, losses: Sequence[float]) -> None:
    """Leave the losses of ``imitate`` in the folder of a run, for who looks at it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"step": at, "loss": loss}) for at, loss in enumerate(losses, 1))
    (folder / "warm_start.jsonl").write_text("".join(f"{row}\n" for row in rows))


def _backward(
    model: PolicyValueModel, batch: Sequence[Dialogue], micro_batch_tokens: int | None
) -> float:
    """Add up the gradient of the mean log-prob of ``batch``; return the loss."""
    learned = sum(len(turn.reply_ids) for talk in batch for turn in talk)
    total = 0.0
    for part in _parts(batch, micro_batch_tokens):
        inputs = (each.to(model.device) for each in _inputs(part))
        loss = -model(*inputs, entropy="none").log_prob_T.sum() / learned
        loss.backward()
        total += float(loss.detach())
    return total


def _parts(batch: Sequence[Dialogue], most: int | None) -> Iterator[list[Dialogue]]:
    """Cut ``batch`` into parts of at most ``most`` ids, or of one conversation."""
    part: list[Dialogue] = []
    size = 0
    for talk in batch:
        length = sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in talk)
        if part and most is not None and size + length > most:
            yield part
            part, size = [], 0
        part.append(talk)
        size += length
    yield part


def _inputs(batch: Sequence[Dialogue]) -> Inputs:
    packed = Sequences()
    for talk in batch:
        for at, (prompt_ids, reply_ids) in enumerate(talk):
            packed.read(prompt_ids, new_sequence=at == 0)
            packed.learn(reply_ids)
    return packed.inputs()

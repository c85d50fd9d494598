"""Whose GPUs are whose on one machine: players that want whole cards leave the learner its own."""

from __future__ import annotations

import math
import os

import torch

from llm_gym_agents.build import device_of
from llm_gym_agents.config import ConfigStore


def players_cards(config: ConfigStore) -> list[str] | None:
    """Return the cards that a cluster on this machine may give to players; None for any.

    The learner has its cards to itself where players want whole ones and enough are left. A share
    of a card (``ray.num_gpus_per_actor`` below 1) is asked for by those who share with it.
    """
    device = torch.device(device_of(config.model.device))
    each = config.ray.num_gpus_per_actor
    each = 1.0 if each is None else each
    if device.type != "cuda" or each < 1 or config.ray.address is not None:
        return None
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = told.split(",") if told else [str(at) for at in range(torch.cuda.device_count())]
    learning = {device.index or 0}
    if config.parallel.mode != "none":
        learning = set(range(int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    left = [card for at, card in enumerate(cards) if at not in learning]
    return left if len(left) >= math.ceil(each) * config.ray.num_actors else None

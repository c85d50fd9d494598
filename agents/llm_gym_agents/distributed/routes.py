"""Which way weights go to each actor: by a handle, in a group, or through the object store."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import NamedTuple

import torch

from llm_gym_agents.distributed.members import Member
from llm_gym_agents.distributed.weight_group import Backend


class Routes(NamedTuple):
    """Actors, by the way that weights go to them."""

    handle: list[Member]
    """On the learner's own card, which they read there (CUDA IPC)."""
    group: list[Member]
    """In one process group with the learner."""
    store: list[Member]
    """The others."""


def routes_of(members: Sequence[Member], device: torch.device) -> Routes:
    """Return the way to each of ``members`` from a learner on ``device``.

    A handle on the learner's card, a group of one actor on each other card, and the object store
    for the rest: for all of them where the learner is on a CPU.
    """
    if device.type != "cuda":
        return Routes([], [], list(members))
    own = card(device)
    found = Routes([], [], [])
    taken: set[tuple[str, str]] = set()
    for member in members:
        facts = member.facts
        where = (facts.node, facts.gpu) if facts and facts.gpu else None
        if where is None or where in taken:  # NCCL refuses two of its members on one card
            found.store.append(member)
        elif where == own:
            found.handle.append(member)
        else:
            taken.add(where)
            found.group.append(member)
    return found


def backend_of(device: torch.device) -> Backend:
    """Return what a group with a learner on ``device`` talks over."""
    return "nccl" if device.type == "cuda" else "gloo"


def card(device: torch.device) -> tuple[str, str]:
    """Return which card of which machine a device of this process is."""
    return socket.gethostname(), str(torch.cuda.get_device_properties(device).uuid)

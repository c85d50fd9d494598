"""``WeightGroup``: learner and actors as one process group, for nothing but weights.

NCCL between GPUs, gloo between CPUs: a bucket goes to all members at once, and the hosts' memory
sees nothing of it. The group stands beside those that learner and engines have of their own
(``torchrun``'s, vLLM's), so torch's backend is made directly, over a store of its own, and nothing
of ``torch.distributed`` that a process has only one of is touched. Nothing here knows Ray.

NCCL refuses two members on one card. Whoever is lost breaks the group; a new one is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from llm_gym_agents.run.process import env_vars

Backend = Literal["gloo", "nccl"]
PATIENCE = timedelta(seconds=60)
"""How long members wait for each other."""


class Meeting(NamedTuple):
    """Where members of a group find each other."""

    host: str
    port: int
    members: int
    """With the learner."""
    backend: Backend


class GroupBrokenError(RuntimeError):
    """A member of the group is gone."""


class WeightGroup:
    """One member of a group; the first, the learner, sends.

    Args:
        meeting: Where.
        rank: Which of them this is.
        store: Of the learner, who has opened it.
    """

    def __init__(self, meeting: Meeting, rank: int, store: Any = None) -> None:
        self.meeting = meeting
        with _broken():
            self._store = store or TCPStore(meeting.host, meeting.port, timeout=PATIENCE)
            self._group = _backend(meeting, rank, self._store)

    @staticmethod
    def open(host: str, members: int, backend: Backend) -> tuple[Meeting, Any]:
        """Return a meeting point on this machine, whose address is ``host``, and its store."""
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
        return Meeting(host, store.port, members, backend), store

    @property
    def device(self) -> torch.device:
        """Where what is sent must be."""
        if self.meeting.backend == "gloo":
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    def broadcast(self, buffer: Tensor) -> None:
        """Send what is in the learner's buffer to the buffers of all others, and wait for it."""
        how = dist.BroadcastOptions()
        how.rootRank, how.rootTensor = 0, 0
        with _broken():
            self._group.broadcast([buffer], how).wait()
            if buffer.is_cuda:
                torch.cuda.synchronize(buffer.device)

    def receive(self, size: int) -> Tensor:
        """Return the bytes that the learner sends."""
        buffer = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.broadcast(buffer)
        return buffer

    def close(self) -> None:
        """Leave; the others notice."""
        with suppress(RuntimeError):
            self._group.abort()


def _backend(meeting: Meeting, rank: int, store: Any) -> Any:
    if meeting.backend == "gloo":
        return dist.ProcessGroupGloo(store, rank, meeting.members, PATIENCE)
    # Waiting that ends in an error: by default NCCL ends the process of whoever waits in vain.
    told = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    with env_vars(told):
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = PATIENCE
        return dist.ProcessGroupNCCL(store, rank, meeting.members, options)


@contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # all of torch.distributed's are
        raise GroupBrokenError(str(error).splitlines()[0]) from error

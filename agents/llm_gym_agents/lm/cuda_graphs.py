"""The one door to CUDA graphs: work on a GPU that is recorded once, and handed over at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

Replay = Callable[[], None]


def new_pool() -> Any:
    """Return a name for memory that recordings share, one of them at a time."""
    return torch.cuda.graph_pool_handle()


def new_stream(device: torch.device) -> Any:
    """Return the stream that passes are recorded in."""
    return torch.cuda.Stream(device)


@contextmanager
def beside(stream: Any) -> Iterator[None]:
    """Within this block, work in ``stream``: after what was asked for, and before what will be."""
    usual = torch.cuda.current_stream(stream.device)
    stream.wait_stream(usual)
    with torch.cuda.stream(stream):
        yield
    usual.wait_stream(stream)


def record(work: Callable[[], None], pool: Any, stream: Any) -> Replay:
    """Return a function that does on the GPU, at once, all that ``work`` asks of it."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(stream.device)
    with beside(stream):
        # Other threads, such as those of an engine, may do what they like meanwhile.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        except BaseException:
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    replay: Replay = graph.replay
    return replay

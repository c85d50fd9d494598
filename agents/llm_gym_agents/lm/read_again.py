"""What a layer that is computed again, for gradient checkpointing, must find as it was at first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from llm_gym_agents.lm.lean_layers import lean_again
from llm_gym_agents.lm.packed_attention import packed_again

Block = AbstractContextManager[None]


def read_again() -> tuple[Block, Block]:
    """Return the blocks of a layer's first forward pass and of its second, on the way back."""
    return nullcontext(), _both(packed_again(), lean_again())


@contextmanager
def _both(packing: Block, lean: Block) -> Iterator[None]:
    with packing, lean:
        yield

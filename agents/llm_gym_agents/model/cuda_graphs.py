"""Passes of a trunk recorded as CUDA graphs, and played back.

The kernels of a small model are done before the CPU has handed over the next one: most of an update
on a large GPU is waiting. A graph hands over a whole pass at once. It works at fixed places in
memory and with fixed shapes, so a packed batch is copied to where the recording reads, and filled
up to one of a few sizes with sequences that nobody asks about.

A size is recorded when it comes up for the second time, and what cannot be recorded is read as
usual. Weights may change in place between two passes; their places may not.

Shapes: S ids of all sequences, Q sequences, C hidden channels.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from llm_gym_agents.model.packed_attention import Packing

Read = Callable[[Tensor, Packing], Tensor]
"""Reads ids, packed so, and returns the hidden state at each of them."""
MOST = 16
"""GraphCache that are kept; further sizes are read as usual."""
SMALL = 1_000_000_000
"""Weights above which the kernels of a pass take longer than it takes to hand them over."""
_log = logging.getLogger(__name__)


def can_capture(model: nn.Module, compute_dtype: torch.dtype) -> bool:
    """Whether the passes of ``model`` are the same kernels each time, all on one GPU.

    Not so with adapters, which are switched off and on; with gradient checkpointing, whose layers
    wait for what they need; with weights of other processes; in float32, where attention has the
    shapes of the batch.
    """
    weights = list(model.parameters())
    return (
        compute_dtype in (torch.bfloat16, torch.float16)
        and all(each.is_cuda and each.is_floating_point() for each in weights)
        and len({each.device for each in weights}) == 1
        and not any(hasattr(each, "placements") for each in weights)
        and not any(
            hasattr(each, "get_delta_weight") or getattr(each, "gradient_checkpointing", False)
            for each in model.modules()
        )
    )


def is_launch_bound(model: nn.Module) -> bool:
    """Whether a GPU waits for the CPU while it reads with ``model``."""
    return sum(each.numel() for each in model.parameters()) < SMALL


class GraphCache:
    """The recorded passes of one trunk.

    Args:
        trunk: Read with, in bfloat16 on a GPU.
        read: Its pass over a packed batch.
    """

    def __init__(self, trunk: nn.Module, read: Read) -> None:
        self._trunk, self._read = trunk, read
        self._seen: Counter[tuple[BucketSize, bool]] = Counter()
        self._made: dict[tuple[BucketSize, bool], _Recording] = {}
        self._owners = [
            (module._parameters, name)
            for module in trunk.modules()
            for name, weight in module._parameters.items()
            if weight is not None
        ]
        self._places: list[tuple[int, bool]] = []
        self._tape: _Tape | None = None
        self.works = True
        """Whether passes can be recorded, as far as is known."""

    def __len__(self) -> int:
        return len(self._made)

    def hidden(self, ids_S: Tensor, lengths_Q: Tensor) -> Tensor | None:
        """Return the hidden state at each id; None where it has to be read as usual."""
        if not self.works:
            return None
        self._look_where_weights_are()
        size, learns = BucketSize.of(lengths_Q), torch.is_grad_enabled()
        key = size, learns
        self._seen[key] += 1
        if key not in self._made:
            if self._seen[key] < 2 or len(self._made) >= MOST:
                return None
            if (made := self._recorded(size, learns)) is None:
                return None
            self._made[key] = made
        return self._made[key](ids_S, lengths_Q)

    def _recorded(self, size: BucketSize, learns: bool) -> _Recording | None:
        try:
            self._tape = self._tape or _Tape(self._trunk)
            return _Recording(self._read, size, self._tape, learns)
        except RuntimeError as error:  # out of memory, or an operation that waits for the GPU
            said = str(error).split("\n", 1)[0].split(". ", 1)[0]  # memory has a page to say
            _log.warning("passes are not recorded, which is slower for a small model: %s", said)
            self.works, self._tape = False, None
            self._made.clear()
            return None

    def _look_where_weights_are(self) -> None:
        """Forget graph_caches of weights that are elsewhere by now, or trained only now."""
        weights: list[Any] = [own[name] for own, name in self._owners]
        places = [(each.data_ptr(), each.requires_grad) for each in weights]
        if places != self._places:
            self._places, self._tape = places, None
            self._made.clear()
            self._seen.clear()


class _Tape:
    """What all graph_caches of a trunk share: memory, and the gradients of the last pass."""

    def __init__(self, trunk: nn.Module) -> None:
        self.weights = [each for each in trunk.parameters() if each.requires_grad]
        # The same memory under other names: autograd remembers in which stream a name was used
        # first, and a recording must not wait for any but its own.
        self._aliases = {id(each): nn.Parameter(each.detach()) for each in self.weights}
        self.leaves = list(self._aliases.values())
        self._owners = [
            (module._parameters, name, weight)
            for module in trunk.modules()
            for name, weight in module._parameters.items()
            if weight is not None and weight.requires_grad
        ]
        self.device = next(trunk.parameters()).device
        self.pool, self.stream = new_pool(), new_stream(self.device)
        self.passes = 0
        """Played so far: each takes the memory of the one before."""
        sizes = [each.numel() for each in self.weights]
        self.flat = torch.zeros(sum(sizes), device=self.device)
        """Gradients behind one another, so that one copy has all."""
        self.grads = _views(self.flat, self.weights)

    @contextmanager
    def aliased(self) -> Iterator[None]:
        """Within this block the trunk has the aliases for its weights."""
        for own, name, weight in self._owners:
            own[name] = self._aliases[id(weight)]
        try:
            yield
        finally:
            for own, name, weight in self._owners:
                own[name] = weight


class _Recording:
    """One pass, forward and back, at one size."""

    def __init__(self, read: Read, size: BucketSize, tape: _Tape, learns: bool) -> None:
        self._read, self._size, self.tape = read, size, tape
        device = tape.device
        self._ids_S = torch.zeros(size.ids, dtype=torch.int64, device=device)
        lengths_Q = size.fill(torch.zeros(0, dtype=torch.int64))
        self._packing = Packing.of(lengths_Q, device, longest=size.longest)
        self._learns = learns and bool(tape.weights)
        self._hidden_SC = self._grad_SC = torch.empty(0)
        self.used: list[bool] = []
        self._warm_up()
        self._forward_again = record(self._forward, tape.pool, tape.stream)
        if self._learns:
            self._backward_again = record(self._backward, tape.pool, tape.stream)
        self._hidden_SC = self._hidden_SC.detach()  # what autograd kept is the tape's from now on

    def __call__(self, ids_S: Tensor, lengths_Q: Tensor) -> Tensor:
        """Read ``ids_S``; return the hidden state at each, good until the next pass."""
        self._ids_S[: len(ids_S)].copy_(ids_S)
        self._ids_S[len(ids_S) :].zero_()
        filled = self._size.fill(lengths_Q)
        packing = Packing.of(filled, longest=self._size.longest)
        self._packing.slot_S.copy_(packing.slot_S, non_blocking=True)
        self._packing.starts.copy_(packing.starts, non_blocking=True)
        if self._learns:
            replayed: Any = _Replayed.apply  # untyped in torch
            found: Tensor = replayed(self, *self.tape.weights)
        else:
            found = self.forward()
        return found[: len(ids_S)]

    def forward(self) -> Tensor:
        """Play the pass; return what it wrote."""
        self.tape.passes += 1
        self._forward_again()
        return self._hidden_SC.detach()

    def backward(self, grad_SC: Tensor) -> list[Tensor | None]:
        """Play the way back; return the gradients of the tape's weights."""
        self._grad_SC.copy_(grad_SC)
        self._backward_again()
        grads = _views(self.tape.flat.clone(), self.tape.weights)
        return [grad if used else None for grad, used in zip(grads, self.used, strict=True)]

    def _forward(self) -> None:
        with self.tape.aliased():
            self._hidden_SC = self._read(self._ids_S, self._packing)

    def _backward(self) -> None:
        found = torch.autograd.grad(
            self._hidden_SC, self.tape.leaves, self._grad_SC, allow_unused=True
        )
        pairs = zip(self.tape.grads, found, strict=True)
        there = [(place, grad) for place, grad in pairs if grad is not None]
        self.used = [grad is not None for grad in found]
        torch._foreach_copy_([place for place, _ in there], [grad for _, grad in there])

    def _warm_up(self) -> None:
        """Do it once as usual: what libraries set up at their first call cannot be recorded."""
        with beside(self.tape.stream):
            self._forward()
            self._grad_SC = torch.zeros_like(self._hidden_SC, requires_grad=False)
            if self._learns:
                self._backward()


class _Replayed(torch.autograd.Function):
    """A recorded pass, as autograd sees it: a function of the trunk's weights."""

    @staticmethod
    def forward(ctx: Any, recording: _Recording, *weights: Tensor) -> Tensor:
        found = recording.forward()
        ctx.recording, ctx.passes = recording, recording.tape.passes
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        recording: _Recording = ctx.recording
        if ctx.passes != recording.tape.passes:
            raise RuntimeError(
                "a recorded pass must go back before the next one is read, got one whose memory "
                "was used again; set model.cuda_graphs=False to read several at once"
            )
        return None, *recording.backward(grads[0])


def _views(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    return list(torch._utils._unflatten_dense_tensors(flat, list(like)))


# --- bucket sizes ---------------------------------------------------------------------

_SHORTEST = 128


class BucketSize(NamedTuple):
    """Of a recording: what is filled up to it looks alike."""

    ids: int
    rows: int
    longest: int

    @classmethod
    def of(cls, lengths_Q: Tensor) -> BucketSize:
        """Return the size that sequences of these lengths are filled up to.

        >>> BucketSize.of(torch.tensor([100, 300, 210]))
        BucketSize(ids=640, rows=4, longest=512)
        """
        ids, longest = int(lengths_Q.sum()), int(lengths_Q.max())
        longest = max(_SHORTEST, 1 << (longest - 1).bit_length())
        step = max(_SHORTEST, 1 << max(0, (ids - 1).bit_length() - 3))  # four sizes to a doubling
        filled = -(-ids // step) * step
        rows = len(lengths_Q) + -(-(filled - ids) // longest)
        return cls(filled, 1 << (rows - 1).bit_length(), longest)

    def fill(self, lengths_Q: Tensor) -> Tensor:
        """Return the lengths of all sequences of a recording: those given, filling, empty ones.

        The filling is read like any sequence: what an attention kernel leaves out would be memory
        that nobody wrote, and zeros times that need not be zero.

        >>> BucketSize(640, 8, 256).fill(torch.tensor([100, 250]))
        tensor([100, 250, 256,  34,   0,   0,   0,   0])
        """
        left = self.ids - int(lengths_Q.sum())
        filling = [self.longest] * (left // self.longest) + [left % self.longest]
        empty = self.rows - len(lengths_Q) - len(filling)
        more = filling + [0] * empty if empty >= 0 else filling[:empty]
        return torch.cat([lengths_Q, lengths_Q.new_tensor(more)])


# --- torch.cuda.graphs ----------------------------------------------------------------

Replay = Callable[[], None]


def new_pool() -> Any:
    """Return a name for memory that graph_caches share, one of them at a time."""
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

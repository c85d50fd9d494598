"""Forward and backward passes of a trunk as CUDA graphs.

A small model is launch-bound: its kernels finish before the CPU has launched the next ones. A graph
launches a whole pass at once. It has fixed shapes and memory addresses, so a packed batch is copied
to where the graph reads and padded to a bucket size with dummy sequences and unused keys.

A bucket size is captured when it comes up for the second time; what cannot be captured runs as
usual. Batches shrink or grow while a policy learns: then new graphs replace idle ones. Weights may
change in place between two passes; their addresses may not. Only this file uses CUDA graphs.

Shapes: S ids of all sequences, Q sequences, C hidden channels.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from llm_gym_agents.model.packed_attention import Packing, SharedKeys

Read = Callable[[Tensor, Packing], Tensor]
"""Runs the trunk on packed ids and returns the hidden state at each of them."""
MAX_GRAPHS = 16
"""Graphs that are kept; further bucket sizes run as usual while all of these are in use."""
IDLE = 4 * MAX_GRAPHS
"""Passes after which a graph that was not replayed makes room for another."""
SMALL_PASS = 500_000_000_000
"""Ids times parameters below which padding costs less than capturing more bucket sizes."""
LAUNCH_BOUND = 1_000_000_000
"""Parameters below which launching the kernels of a pass takes longer than running them."""
_SHORTEST = 128
"""Smallest step between bucket sizes, in ids."""
_FEW_IDS, _FEW_LONGEST = 16, 256
"""Ids per row, and ids of the longest sequence, of small passes: then most share a graph."""
Replay = Callable[[], None]
_log = logging.getLogger(__name__)


def can_capture(model: nn.Module, compute_dtype: torch.dtype) -> bool:
    """Whether passes of ``model`` run the same kernels each time, all on one GPU.

    False with adapters (which are switched off and on), gradient checkpointing, sharded weights, or
    float32 (where attention has the shapes of the batch).
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
    """Whether the GPU waits for the CPU to launch the kernels of ``model``."""
    return sum(each.numel() for each in model.parameters()) < LAUNCH_BOUND


class GraphCache:
    """The captured passes of one trunk."""

    def __init__(self, trunk: nn.Module, read: Read) -> None:
        self._trunk, self._read = trunk, read
        self._seen: Counter[tuple[BucketSize, bool]] = Counter()
        self._made: dict[tuple[BucketSize, bool], _CapturedPass] = {}
        self._last: dict[tuple[BucketSize, bool], int] = {}  # pass in which each was replayed
        self._passes = 0
        self._small = SMALL_PASS // sum(each.numel() for each in trunk.parameters())
        self._owners = [
            (module._parameters, name)
            for module in trunk.modules()
            for name, weight in module._parameters.items()
            if weight is not None
        ]
        self._places: list[tuple[int, bool]] = []
        self._shared: _SharedMemory | None = None
        self.works = True
        """False once a capture has failed."""

    def __len__(self) -> int:
        return len(self._made)

    def hidden(self, ids_S: Tensor, packing: Packing) -> Tensor | None:
        """Return the hidden state at each id; None if the pass must run as usual.

        ``packing`` is best on the CPU, where it is padded.
        """
        if not self.works:
            return None
        self._drop_if_weights_moved()
        is_small = len(packing.slot_S) < self._small
        size, learns = BucketSize.of(packing, few=is_small), torch.is_grad_enabled()
        key = size, learns
        self._seen[key] += 1
        self._passes += 1
        if key not in self._made:
            if self._seen[key] < 2 or not self._has_room():
                return None
            if (made := self._captured(size, learns)) is None:
                return None
            self._made[key] = made
        self._last[key] = self._passes
        return self._made[key](ids_S, packing)

    def _has_room(self) -> bool:
        """Whether another graph may be captured; an idle one is dropped for it."""
        if len(self._made) < MAX_GRAPHS:
            return True
        oldest = min(self._made, key=self._last.__getitem__)
        if self._passes - self._last[oldest] < IDLE:
            return False
        del self._made[oldest]
        return True

    def _captured(self, size: BucketSize, learns: bool) -> _CapturedPass | None:
        try:
            self._shared = self._shared or _SharedMemory(self._trunk)
            return _CapturedPass(self._read, size, self._shared, learns)
        except RuntimeError as error:  # out of memory, or an operation that waits for the GPU
            reason = str(error).split("\n", 1)[0].split(". ", 1)[0]  # out of memory prints a page
            _log.warning("no CUDA graphs, which is slower for a small model: %s", reason)
            self.works, self._shared = False, None
            self._made.clear()
            return None

    def _drop_if_weights_moved(self) -> None:
        """Drop the graphs if weights have new addresses or are trained only now."""
        weights: list[Any] = [own[name] for own, name in self._owners]
        places = [(each.data_ptr(), each.requires_grad) for each in weights]
        if places != self._places:
            self._places, self._shared = places, None
            self._made.clear()
            self._seen.clear()


class _SharedMemory:
    """What all graphs of a trunk share: the memory pool and the gradients of the last pass."""

    def __init__(self, trunk: nn.Module) -> None:
        self.weights = [each for each in trunk.parameters() if each.requires_grad]
        # The same memory as other parameters: autograd remembers the stream in which a parameter
        # was first used, and a capture must not wait for any stream but its own.
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
        """Passes so far: each reuses the memory of the one before."""
        sizes = [each.numel() for each in self.weights]
        self.flat = torch.zeros(sum(sizes), device=self.device)
        """All gradients in one tensor, so that one copy takes them."""
        self.grads = _views(self.flat, self.weights)

    @contextmanager
    def aliased(self) -> Iterator[None]:
        """Replace the weights of the trunk by their aliases within this block."""
        for own, name, weight in self._owners:
            own[name] = self._aliases[id(weight)]
        try:
            yield
        finally:
            for own, name, weight in self._owners:
                own[name] = weight


class _CapturedPass:
    """One pass, forward and backward, at one bucket size."""

    def __init__(self, read: Read, size: BucketSize, shared: _SharedMemory, learns: bool) -> None:
        self._read, self._size, self.shared = read, size, shared
        device = shared.device
        self._ids_S = torch.zeros(size.ids, dtype=torch.int64, device=device)
        self._packing = size.empty().to(device)
        self._learns = learns and bool(shared.weights)
        self._hidden_SC = self._grad_SC = torch.empty(0)
        self.used: list[bool] = []
        self._warm_up()
        self._forward_again = capture(self._forward, shared.pool, shared.stream)
        if self._learns:
            self._backward_again = capture(self._backward, shared.pool, shared.stream)
        self._hidden_SC = self._hidden_SC.detach()  # what autograd saved lives in the pool now

    def __call__(self, ids_S: Tensor, packing: Packing) -> Tensor:
        """Return the hidden state at each of ``ids_S``, valid until the next pass."""
        self._ids_S[: len(ids_S)].copy_(ids_S)
        self._ids_S[len(ids_S) :].zero_()
        self._packing.copy_(self._size.fill(packing))
        if self._learns:
            replayed: Any = _Replay.apply  # untyped in torch
            found: Tensor = replayed(self, *self.shared.weights)
        else:
            found = self.forward()
        return found[: len(ids_S)]

    def forward(self) -> Tensor:
        self.shared.passes += 1
        self._forward_again()
        return self._hidden_SC.detach()

    def backward(self, grad_SC: Tensor) -> list[Tensor | None]:
        """Replay the backward pass; return the gradients of the weights."""
        self._grad_SC.copy_(grad_SC)
        self._backward_again()
        grads = _views(self.shared.flat.clone(), self.shared.weights)
        return [grad if used else None for grad, used in zip(grads, self.used, strict=True)]

    def _forward(self) -> None:
        with self.shared.aliased():
            self._hidden_SC = self._read(self._ids_S, self._packing)

    def _backward(self) -> None:
        found = torch.autograd.grad(
            self._hidden_SC, self.shared.leaves, self._grad_SC, allow_unused=True
        )
        pairs = zip(self.shared.grads, found, strict=True)
        there = [(place, grad) for place, grad in pairs if grad is not None]
        self.used = [grad is not None for grad in found]
        torch._foreach_copy_([place for place, _ in there], [grad for _, grad in there])

    def _warm_up(self) -> None:
        """Run once as usual: what libraries set up at their first call cannot be captured."""
        with in_stream(self.shared.stream):
            self._forward()
            self._grad_SC = torch.zeros_like(self._hidden_SC, requires_grad=False)
            if self._learns:
                self._backward()


class _Replay(torch.autograd.Function):
    """A captured pass as a function of the trunk's weights, for autograd."""

    @staticmethod
    def forward(ctx: Any, captured: _CapturedPass, *weights: Tensor) -> Tensor:
        found = captured.forward()
        ctx.captured, ctx.passes = captured, captured.shared.passes
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        captured: _CapturedPass = ctx.captured
        if ctx.passes != captured.shared.passes:
            raise RuntimeError(
                "a captured pass must run backward before the next forward, got one whose memory "
                "was reused"
            )
        return None, *captured.backward(grads[0])


def _views(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    return list(torch._utils._unflatten_dense_tensors(flat, list(like)))


# --- bucket sizes -----------------------------------------------------------------------------


class BucketSize(NamedTuple):
    """What packed sequences are padded to, so that one graph fits many batches."""

    ids: int
    rows: int
    longest: int
    keys: int = 0
    """0 unless prefixes are shared."""
    most_keys: int = 0

    @classmethod
    def of(cls, packing: Packing, *, few: bool = False) -> BucketSize:
        """Return the bucket of packed sequences: four sizes of ids per power of two, two of keys.

        Args:
            packing: Where the sequences lie.
            few: Powers of two only (of four for keys), equally many rows for one number of ids.

        >>> packing = Packing.of(torch.tensor([100, 300, 210]))
        >>> BucketSize.of(packing)
        BucketSize(ids=640, rows=4, longest=512, keys=0, most_keys=0)
        >>> BucketSize.of(packing, few=True)
        BucketSize(ids=1024, rows=64, longest=512, keys=0, most_keys=0)
        """
        ids = len(packing.slot_S)
        longest = max(_FEW_LONGEST if few else _SHORTEST, _power(packing.longest))
        filled = _steps(ids, 2 if few else 8)
        rows = _power(packing.rows + -(-(filled - ids) // longest))
        if few:
            rows = max(rows, filled // _FEW_IDS)
        if packing.shared is None:
            return cls(filled, rows, longest)
        keys = len(packing.shared.index_K) + filled - ids
        keys = max(_SHORTEST, _power(keys, 4)) if few else _steps(keys, 4)
        most_keys = max(longest, _power(packing.shared.longest))
        return cls(filled, rows, longest, keys, most_keys)

    def empty(self) -> Packing:
        """Return a packing of dummies."""
        none = torch.zeros(0, dtype=torch.int64)
        packing = Packing.of(none, longest=self.longest)
        if self.keys:
            shared = SharedKeys(none, packing.starts, self.most_keys, none)
            packing = replace(packing, shared=shared)
        return self.fill(packing)

    def fill(self, packing: Packing) -> Packing:
        """Return the packing with dummies and empty sequences added.

        Dummies are read like any sequence: what an attention kernel skips is uninitialised memory,
        and zero times that need not be zero. A dummy has its own ids as keys.
        """
        ids, rows = len(packing.slot_S), packing.rows
        filling = self._dummies(ids, self.rows - rows)
        lengths = torch.cat([packing.starts.diff(), filling])
        filled = Packing.of(lengths.to(torch.int64), longest=self.longest)
        if (shared := packing.shared) is None:
            return filled
        index_K = torch.cat([shared.index_K, torch.arange(ids, self.ids)])
        more = (shared.starts[-1] + filling.cumsum(0)).to(torch.int32)
        keys = SharedKeys(
            F.pad(index_K, (0, self.keys - len(index_K)), value=self.ids),
            torch.cat([shared.starts, more]),
            self.most_keys,
            torch.cat([shared.position_S, filled.position_S[ids:]]),
        )
        return replace(filled, shared=keys)

    def _dummies(self, ids: int, rows: int) -> Tensor:
        """Return the lengths of ``rows`` dummies after ``ids`` ids, the last ones empty.

        >>> BucketSize(640, 8, 256)._dummies(350, 6)
        tensor([256,  34,   0,   0,   0,   0], dtype=torch.int32)
        """
        left = self.ids - ids
        filled = torch.arange(1, rows + 1, dtype=torch.int32) * self.longest
        return filled.clamp(max=left).diff(prepend=filled.new_zeros(1))


def _power(number: int, base: int = 2) -> int:
    """Return the smallest power of ``base``, 2 or 4, that is not below ``number``."""
    step = base // 2
    return 1 << -(-(number - 1).bit_length() // step) * step


def _steps(number: int, parts: int) -> int:
    """Return ``number`` rounded up to a ``parts``-th of the power of two above."""
    step = max(_SHORTEST, _power(number) // parts)
    return -(-number // step) * step


# --- torch.cuda -------------------------------------------------------------------------------


def new_pool() -> Any:
    """Return a memory pool that graphs share, one at a time."""
    return torch.cuda.graph_pool_handle()


def new_stream(device: torch.device) -> Any:
    """Return the stream in which passes are captured."""
    return torch.cuda.Stream(device)


@contextmanager
def in_stream(stream: Any) -> Iterator[None]:
    """Run in ``stream`` within this block, ordered before and after the current stream."""
    usual = torch.cuda.current_stream(stream.device)
    stream.wait_stream(usual)
    with torch.cuda.stream(stream):
        yield
    usual.wait_stream(stream)


def capture(work: Callable[[], None], pool: Any, stream: Any) -> Replay:
    """Capture ``work``; return a function that replays it."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(stream.device)
    with in_stream(stream):
        # thread_local: other threads, such as those of an engine, may use the GPU meanwhile.
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

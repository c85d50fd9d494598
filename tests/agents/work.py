"""Work of torch, counted; see ``tests/work.py`` for why."""

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class TensorWork(TorchDispatchMode):
    """Counts the operations of torch inside its block, and the numbers that they give back."""

    operations = numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        self.numbers += sum(getattr(leaf, "numel", int)() for leaf in tree_leaves(result))
        return result

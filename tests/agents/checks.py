"""Checks that many tests share."""

from typing import Any, NamedTuple

import torch

from llm_gym_agents.model.weights import full_tensor


def is_one_line(error):
    """Whether the message of an error is a single line; for ``pytest.raises(..., check=)``."""
    return "\n" not in str(error)


class Call(NamedTuple):
    """A call of a recorded method."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


def record_calls(owner, name):
    """Record the calls of ``owner.name`` from now on; return the list that they go to."""
    method, calls = getattr(owner, name), []

    def recorded(*args, **kwargs):
        result = method(*args, **kwargs)
        calls.append(Call(args, kwargs, result))
        return result

    setattr(owner, name, recorded)
    return calls


def first_gradients(model, optimizer):
    """Return a dictionary that gets the gradients of the optimizer's first step, whole ones."""
    found = {}

    def keep(*_):
        if not found:
            weights = ((name, w) for name, w in model.named_parameters() if w.grad is not None)
            found.update((name, full_tensor(weight.grad).clone()) for name, weight in weights)

    optimizer.register_step_pre_hook(keep)
    return found


def copied(module):
    """Return the weights of a module, each in memory of its own."""
    return {name: weight.clone() for name, weight in module.state_dict().items()}


def same(one, other):
    """Whether two dictionaries of tensors are equal to the last bit, dtypes included."""
    assert one.keys() == other.keys()
    return all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )

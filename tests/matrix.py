"""Tables of tests of which `make test` runs a part."""

from itertools import product

import pytest

from llm_gym.registry.suite import ENVS

FIRST_OF_CLASS = list({row.entry_point: row.id for row in reversed(ENVS)}.values())
"""One id of each class of environments, with its usual settings."""


def some_of(*axes):
    """Return every combination of ``axes``; slow but for the diagonal, which has every value."""
    axes = [list(axis) for axis in axes]
    quick = {tuple(at % len(axis) for axis in axes) for at in range(max(map(len, axes)))}
    return [
        pytest.param(
            *(axis[at] for axis, at in zip(axes, cell, strict=True)),
            marks=() if cell in quick else pytest.mark.slow,
        )
        for cell in product(*(range(len(axis)) for axis in axes))
    ]


def one_in(step, values):
    """Return all of ``values``; slow but for one in ``step``."""
    return [
        pytest.param(value, marks=pytest.mark.slow if at % step else ())
        for at, value in enumerate(values)
    ]

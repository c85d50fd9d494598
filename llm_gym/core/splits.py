"""Train, dev and test instances, decided by the instance itself.

Seed ranges do not keep splits apart: two seeds may draw the same instance. A hash of the
instance does, in every process and for every seed.
"""

from __future__ import annotations

from llm_gym.core.hashing import place_hash
from llm_gym.errors import ConfigError

SPLITS = ("train", "dev", "test")
DRAWS = 10_000
"""Instances drawn before a split is called empty."""


def digest(key: str) -> str:
    """Return 16 hex digits that depend on ``key`` alone."""
    return f"{place_hash(key, 64):016x}"


def split_of(instance_id: str) -> str:
    """Return the split of an instance: 80 % train, 10 % dev, 10 % test.

    >>> split_of("0f00000000000000"), split_of("0800000000000000")
    ('train', 'dev')
    """
    bucket = int(instance_id[:8], 16) % 10
    return "test" if bucket == 9 else "dev" if bucket == 8 else "train"


def check_split(name: object) -> str:
    """Return ``name`` if it is a split."""
    if not isinstance(name, str) or name not in SPLITS:
        raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")
    return name

"""Stable hashes, which divide instances into train, dev and test.

Seed ranges do not keep splits apart: two seeds may draw the same instance. A hash of the instance
keeps them apart, in every process and for every seed.
"""

import hashlib

from llm_gym.core.errors import ConfigError

SPLITS = ("train", "dev", "test")
DRAWS = 10_000
"""Instances drawn before a split is called empty."""


def stable_hash(name: str, bits: int = 63) -> int:
    """Return ``bits`` bits that depend on ``name`` alone.

    Numpy and torch take a seed of 63 bits; model servers take one of 31 bits.

    >>> stable_hash("episode 0/1") == stable_hash("episode 0/1") != stable_hash("episode 1/0")
    True
    >>> stable_hash("a", 31) < 2**31 <= stable_hash("a") < 2**63
    True
    """
    size = -(-bits // 8)
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).digest()
    return int.from_bytes(digest, "big") >> (8 * size - bits)


def digest(key: str) -> str:
    """Return 16 hex digits that depend on ``key`` alone."""
    return f"{stable_hash(key, 64):016x}"


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

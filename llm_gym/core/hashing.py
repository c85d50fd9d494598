"""Numbers that depend on a name alone: alike in every process and in every order of work."""

from __future__ import annotations

import hashlib


def place_hash(name: str, bits: int = 63) -> int:
    """Return ``bits`` bits that depend on ``name`` alone.

    63 bits make a seed that numpy and torch take, 31 one that every server takes.

    >>> place_hash("episode 0/1") == place_hash("episode 0/1") != place_hash("episode 1/0")
    True
    >>> place_hash("a", 31) < 2**31 <= place_hash("a") < 2**63
    True
    """
    size = -(-bits // 8)
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).digest()
    return int.from_bytes(digest, "big") >> (8 * size - bits)

"""Uniform numbers that depend on a seed and a counter alone.

What is sampled for a token must not depend on which other replies are in the batch, so every
token has a number of its own: number ``i`` of a seed is a function of both, and any number of
them can be computed at once. The function is Philox4x32-10 (Salmon et al., 2011), which torch
uses on GPUs for the same reason; here it works on whole numpy arrays.

Shapes: N seeds, K numbers of each, W words of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_ROUNDS = 10
_SEED_MASK = 2**64 - 1


def uniforms(seeds: Sequence[int], starts: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return ``[N, K]``: for each seed its numbers ``start`` to ``start + count``, in [0, 1).

    >>> first = uniforms([7, 8], [0, 0], 4)
    >>> bool((uniforms([8], [2], 2) == first[1:, 2:]).all())
    True
    """
    seeds_N: Words = np.array([seed & _SEED_MASK for seed in seeds], dtype=np.uint64)
    starts_N: Words = np.array(starts, dtype=np.uint64)
    # A counter gives four words, hence two numbers of 53 bits: begin at an even one.
    pairs = count // 2 + 1
    ahead_P: Words = np.arange(pairs, dtype=np.uint64)
    pair_NP: Words = (starts_N >> np.uint64(1))[:, None] + ahead_P
    zero: Words = np.zeros_like(pair_NP)
    words = philox(
        (pair_NP & _LOW, pair_NP >> _SHIFT, zero, zero),
        ((seeds_N & _LOW)[:, None], (seeds_N >> _SHIFT)[:, None]),
    )
    numbers = np.stack([_to_unit(*words[:2]), _to_unit(*words[2:])], axis=-1)
    flat_NK = numbers.reshape(len(seeds_N), 2 * pairs)
    if not (starts_N & np.uint64(1)).any():
        return flat_NK[:, :count]
    odd_N = (starts_N & np.uint64(1)).astype(np.intp)
    return np.take_along_axis(flat_NK, odd_N[:, None] + np.arange(count), axis=1)


def philox(counter: tuple[Words, ...], key: tuple[Words, ...]) -> tuple[Words, ...]:
    """Return four words of 32 bits for four words of counter and two of key, all in uint64."""
    a, b, c, d = counter
    low_key, high_key = key
    for _ in range(_ROUNDS):
        ab, cd = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (
            (cd >> _SHIFT) ^ b ^ low_key,
            cd & _LOW,
            (ab >> _SHIFT) ^ d ^ high_key,
            ab & _LOW,
        )
        low_key = (low_key + _STEPS[0]) & _LOW
        high_key = (high_key + _STEPS[1]) & _LOW
    return a, b, c, d


def _to_unit(high: Words, low: Words) -> npt.NDArray[np.float64]:
    return ((high >> np.uint64(5)) * 67108864.0 + (low >> np.uint64(6))) / 9007199254740992.0

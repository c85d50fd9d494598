"""Uniform numbers per seed and token."""

import numpy as np
import pytest

from llm_gym_agents.engines.transformers.sampling import philox, uniforms

# The known answers that come with Random123, the reference implementation.
ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return tuple(np.array([int(word, 16)], dtype=np.uint64) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
def test_philox_gives_the_known_answers(counter, key, answer):
    assert philox(words(counter), words(key)) == words(answer)


def test_a_number_depends_on_its_seed_and_its_place_alone():
    whole = uniforms(range(50), [0] * 50, 33)
    for start in (0, 1, 2, 7, 16):
        part = uniforms([49, 3], [start, start], 5)
        assert (part == whole[[49, 3], start : start + 5]).all()
    mixed = uniforms([4, 4, 4], [0, 1, 2], 3)
    assert (mixed == np.stack([whole[4, at : at + 3] for at in range(3)])).all()


def test_numbers_are_uniform_and_not_related():
    numbers = uniforms(range(2000), [0] * 2000, 50)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    expected = numbers.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 45  # 19 degrees of freedom, p < 0.001
    assert abs(np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.08


def test_seeds_may_be_any_integer():
    numbers = uniforms([0, -1, 2**63, 2**64 - 1], [0] * 4, 1)
    assert len(set(numbers[:, 0])) == 3  # -1 and 2**64 - 1 are the same 64 bits

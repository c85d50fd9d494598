"""AnyText: what it takes, what it refuses, and what it does in a vector env."""

import pickle

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText


@given(st.text(max_size=50) | st.sampled_from(["\ud800", "\x00", "a b\nc", "é✓漢字🙂"]))
def test_takes_any_unicode(text):
    assert text in AnyText(50)


@pytest.mark.parametrize("other", [None, 3, b"bytes", ["list"], "x" * 51])
def test_refuses_what_is_no_string_or_too_long(other):
    assert other not in AnyText(50)


def test_contains_never_looks_at_the_characters():
    class Unreadable(str):
        def __iter__(self):
            raise AssertionError("read a character")

        def __getitem__(self, at):
            raise AssertionError("read a character")

    assert AnyText(10**7).contains(Unreadable("x" * 10**6))


def test_equality_is_length_and_survives_pickling():
    assert AnyText(5) == AnyText(5)
    assert AnyText(5) != AnyText(6)
    assert AnyText(5) != gym.spaces.Text(5)
    assert pickle.loads(pickle.dumps(AnyText(5))) == AnyText(5)


def test_samples_are_seeded_inside_and_of_the_examples():
    one, two = AnyText(30, seed=4), AnyText(30, seed=4)
    samples = [one.sample() for _ in range(50)]
    assert samples == [two.sample() for _ in range(50)]
    assert all(text in one for text in samples)
    assert len(set(samples)) > 10
    assert {AnyText(9, examples=("a", "b"), seed=s).sample() for s in range(20)} == {"a", "b"}


def test_a_mask_and_a_negative_length_are_refused():
    with pytest.raises(ConfigError, match="no mask"):
        AnyText(9).sample(mask=(1, None))
    with pytest.raises(ConfigError, match="-1"):
        AnyText(-1)


def test_texts_in_shared_memory_are_those_of_the_last_step():
    shared, plain = (
        gym.make_vec("llm_gym/GuessTheNumber-v0", num_envs=2, vectorization_mode=mode)
        for mode in ("async", "sync")
    )
    assert shared.reset(seed=3)[0] == plain.reset(seed=3)[0]
    for moves in (["3", "12"], ["\ud800 é", "5"], ["9", "9"]):
        assert shared.step(moves)[0] == plain.step(moves)[0]
    shared.close()

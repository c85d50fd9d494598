"""AnyText: membership, samples, and vector environments."""

import pickle

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText


@given(st.text(max_size=50) | st.sampled_from(["\ud800", "\x00", "a b\nc", "é✓漢字🙂"]))
def test_any_unicode_text_is_in_the_space(text):
    assert text in AnyText(50)


@pytest.mark.parametrize("other", [None, 3, b"bytes", ["list"], "x" * 51])
def test_other_types_and_long_texts_are_not_in_the_space(other):
    assert other not in AnyText(50)


def test_contains_reads_no_characters():
    class Unreadable(str):
        def __iter__(self):
            raise AssertionError("read a character")

        def __getitem__(self, at):
            raise AssertionError("read a character")

    assert AnyText(10**7).contains(Unreadable("x" * 10**6))


def test_spaces_of_one_length_are_equal_even_after_pickling():
    assert AnyText(5) == AnyText(5)
    assert AnyText(5) != AnyText(6)
    assert AnyText(5) != gym.spaces.Text(5)
    assert pickle.loads(pickle.dumps(AnyText(5))) == AnyText(5)


def test_samples_are_seeded_and_in_the_space():
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


def test_async_vector_envs_return_the_texts_of_sync_ones():
    shared, plain = (
        gym.make_vec("llm_gym/GuessTheNumber-v0", num_envs=2, vectorization_mode=mode)
        for mode in ("async", "sync")
    )
    assert shared.reset(seed=3)[0] == plain.reset(seed=3)[0]
    for moves in (["3", "12"], ["\ud800 é", "5"], ["9", "9"]):
        assert shared.step(moves)[0] == plain.step(moves)[0]
    shared.close()

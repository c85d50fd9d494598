"""From logits and uniform numbers to tokens."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.decode import RowSettings, philox, sample, uniforms

CPU = torch.device("cpu")


def draw(logits, rows, numbers):
    """Sample once; ``numbers`` has one uniform number per row."""
    settings = RowSettings.of(rows, np.array(numbers, dtype=np.float64)[:, None], CPU)
    return sample(torch.as_tensor(logits, dtype=torch.float32), settings, 0)


def chosen(probs, sampling, count=400):
    """Return the tokens that ``sampling`` ever takes, over a fine grid of numbers."""
    logits = torch.tensor(probs).log().expand(count, -1)
    numbers = (np.arange(count) + 0.5) / count
    return set(draw(logits, [sampling] * count, numbers)[0].tolist())


def test_tokens_come_as_often_as_they_are_likely():
    probs = [0.5, 0.0, 0.3, 0.2]
    numbers = (np.arange(1000) + 0.5) / 1000
    tokens, log_probs = draw(
        torch.tensor(probs).log().expand(1000, -1), [Sampling()] * 1000, numbers
    )
    assert torch.bincount(tokens, minlength=4).tolist() == [500, 0, 300, 200]
    assert torch.allclose(log_probs.exp(), torch.tensor(probs)[tokens])


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_a_token_of_probability_zero_is_never_taken(number):
    logits = [[-np.inf, 1.0, -np.inf, 1.0, -np.inf]]
    token, log_prob = draw(logits, [Sampling()], [number])
    assert token.item() == (1 if number == 0 else 3)
    assert log_prob.item() == pytest.approx(np.log(0.5))


def test_top_p_of_one_row_does_not_limit_another():
    logits = torch.tensor([[0.0, -20.0]] * 2)  # the first is so likely that it rounds to 1
    rows, number = [Sampling(top_p=0.5), Sampling()], 1 - 2**-40
    assert draw(logits, rows, [number] * 2)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("logits", "sampling", "number", "wanted", "temperature"),
    [
        ([0.0, 1.0, 2.0], {"temperature": 0.5}, 0.999, 2, 0.5),
        ([0.0, 3.0, 2.0], {"temperature": 0}, 0.01, 1, 1.0),  # greedy
        ([1e3, -1e3, 0.0], {"temperature": 1e-5}, 0.5, 0, 1e-5),
        ([0.0, 3.0, 2.0], {"top_p": 0.1}, 0.9, 1, 1.0),  # the whole vocabulary counts
    ],
)
def test_a_token_has_the_log_prob_of_its_temperature(logits, sampling, number, wanted, temperature):
    token, log_prob = draw([logits], [Sampling(**sampling)], [number])
    assert token.item() == wanted
    rows = (torch.tensor(logits) / temperature).log_softmax(-1)
    assert log_prob.item() == pytest.approx(rows[wanted].item())


PROBS = [0.05, 0.4, 0.25, 0.2, 0.1]


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(), {0, 1, 2, 3, 4}),
        (Sampling(top_p=0.64), {1, 2}),
        (Sampling(top_p=0.66), {1, 2, 3}),
        (Sampling(top_p=0.001), {1}),
    ],
)
def test_top_p_chooses_among_tokens(sampling, kept):
    assert chosen(PROBS, sampling) == kept


def test_of_equally_likely_tokens_the_lower_id_is_kept():
    assert chosen([0.25] * 4, Sampling(top_p=0.5)) == {0, 1}


SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
)


@given(st.lists(SETTINGS, min_size=2, max_size=5), st.integers(0, 2**32 - 1))
def test_a_row_is_sampled_alike_alone_and_in_company(rows, seed):
    rng = np.random.default_rng(seed)
    logits, numbers = rng.normal(size=(len(rows), 12)) * 2, rng.random(len(rows))
    together = draw(logits, rows, numbers)
    for at, row in enumerate(rows):
        alone = draw(logits[at : at + 1], [row], numbers[at : at + 1])
        assert alone[0].item() == together[0][at].item()
        assert alone[1].item() == together[1][at].item()


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("temperature", bad) for bad in (-1, 1e-9, float("nan"), float("inf"))),
        *(("top_p", bad) for bad in (0, 1.1)),
        *(("stop_strings", bad) for bad in (("",), "end")),
        ("max_tokens", 0),
    ],
)  # fmt: skip
def test_wrong_sampling_settings_are_refused(name, bad):
    with pytest.raises(ConfigError, match=name):
        Sampling(**{name: bad})


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


def test_a_random_number_depends_on_its_place_and_any_integer_seed():
    whole = uniforms(range(50), [0] * 50, 33)
    for start in (0, 1, 2, 7, 16):
        part = uniforms([49, 3], [start, start], 5)
        assert (part == whole[[49, 3], start : start + 5]).all()
    mixed = uniforms([4, 4, 4], [0, 1, 2], 3)
    assert (mixed == np.stack([whole[4, at : at + 3] for at in range(3)])).all()
    numbers = uniforms([0, -1, 2**63, 2**64 - 1], [0] * 4, 1)
    assert len(set(numbers[:, 0])) == 3  # -1 and 2**64 - 1 are the same 64 bits


def test_numbers_are_uniform_and_not_related():
    numbers = uniforms(range(2000), [0] * 2000, 50)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    expected = numbers.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 45  # 19 degrees of freedom, p < 0.001
    assert abs(np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.08

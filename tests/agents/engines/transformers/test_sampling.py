"""From logits to tokens."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.sampling import RowSettings, sample

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


def test_who_asks_for_no_limit_has_none_beside_one_who_does():
    logits = torch.tensor([[0.0, -20.0]] * 2)  # the first is so likely that it rounds to 1
    rows, number = [Sampling(top_p=0.5), Sampling()], 1 - 2**-40
    assert draw(logits, rows, [number] * 2)[0].tolist() == [0, 1]


def test_temperature_changes_sampling_and_log_prob():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    token, log_prob = draw(logits, [Sampling(temperature=0.5)], [0.999])
    assert token.item() == 2
    assert log_prob.item() == pytest.approx((logits / 0.5).log_softmax(-1)[0, 2].item())


def test_temperature_zero_takes_the_likeliest_with_its_log_prob_at_temperature_one():
    logits = torch.tensor([[0.0, 3.0, 2.0]])
    token, log_prob = draw(logits, [Sampling(temperature=0)], [0.01])
    assert token.item() == 1
    assert log_prob.item() == pytest.approx(logits.log_softmax(-1)[0, 1].item())


def test_the_lowest_temperature_gives_numbers():
    token, log_prob = draw([[1e3, -1e3, 0.0]], [Sampling(temperature=1e-5)], [0.5])
    assert (token.item(), log_prob.item()) == (0, 0.0)


PROBS = [0.05, 0.4, 0.25, 0.2, 0.1]


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(), {0, 1, 2, 3, 4}),
        (Sampling(top_k=2), {1, 2}),
        (Sampling(top_k=99), {0, 1, 2, 3, 4}),
        (Sampling(top_p=0.64), {1, 2}),
        (Sampling(top_p=0.66), {1, 2, 3}),
        (Sampling(top_p=0.001), {1}),
        (Sampling(min_p=0.3), {1, 2, 3}),
        (Sampling(min_p=1.0), {1}),
        (Sampling(top_p=0.8, top_k=2, min_p=0.3), {1, 2}),
        (Sampling(top_p=0.96, top_k=4, min_p=0.3), {1, 2, 3}),
    ],
)
def test_top_p_top_k_and_min_p_choose_among_tokens(sampling, kept):
    assert chosen(PROBS, sampling) == kept


def test_of_equally_likely_tokens_the_lower_id_is_kept():
    assert chosen([0.25] * 4, Sampling(top_k=2)) == {0, 1}
    assert chosen([0.25] * 4, Sampling(top_p=0.5)) == {0, 1}


def test_choosing_does_not_change_log_probs():
    token, log_prob = draw(torch.tensor([PROBS]).log(), [Sampling(top_k=1)], [0.9])
    assert token.item() == 1
    assert log_prob.item() == pytest.approx(np.log(0.4))


SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3]),
    min_p=st.sampled_from([0.0, 0.2]),
)


@settings(max_examples=60, deadline=None)
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
    "bad",
    [
        {"temperature": -1},
        {"temperature": 1e-9},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2},
        {"max_tokens": 0},
        {"stop_strings": ("",)},
        {"stop_strings": "end"},
    ],
)
def test_settings_that_mean_nothing_are_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Sampling(**bad)

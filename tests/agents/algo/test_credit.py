"""Estimates against noisy truths: numbers known in advance."""

import numpy as np
import pytest

from llm_gym_agents.algo.credit import Truth, compare, explained_variance, interval

GROUPS = np.repeat(np.arange(10), 4)


def exact(values):
    return Truth(np.asarray(values, dtype=float), np.zeros(len(values)))


def test_a_truth_has_the_mean_and_variance_of_its_samples():
    # Four samples each; the variance of a mean is theirs over four.
    truth = Truth.of([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert truth.mean_N.tolist() == [0.5, 1.0]
    assert truth.variance_N.tolist() == pytest.approx([1 / 12, 0.0])
    difference = truth.less(Truth.of([[1.0], [0.0, 2.0]]))
    assert difference.mean_N.tolist() == [-0.5, 0.0]
    assert difference.variance_N.tolist() == pytest.approx([1 / 12, 1.0])


def test_the_ceiling_is_what_a_perfect_estimate_reaches():
    rng = np.random.default_rng(0)
    true = rng.normal(size=20_000)
    noisy = Truth(true + rng.normal(0, 0.75, size=20_000), np.full(20_000, 0.75**2))
    assert noisy.ceiling == pytest.approx(0.8, abs=0.01)
    assert np.corrcoef(true, noisy.mean_N)[0, 1] == pytest.approx(noisy.ceiling, abs=0.01)
    assert exact([0.0, 1.0]).ceiling == 1.0
    assert exact([1.0, 1.0]).ceiling == 0.0  # nothing differs


def test_a_scaled_copy_is_perfect_and_its_negative_is_all_wrong():
    true = np.random.default_rng(0).normal(size=40)
    good = compare(3 * true, exact(true), GROUPS)
    assert good["correlation"] == pytest.approx([1.0] * 3)
    assert good["sign"] == [1.0] * 3
    assert good["bias"] == pytest.approx([0.0] * 3, abs=1e-9)
    bad = compare(-true, exact(true), GROUPS)
    assert bad["correlation"] == pytest.approx([-1.0] * 3)
    assert bad["sign"] == [0.0] * 3


def test_bias_is_the_shift_in_standard_deviations():
    true = np.tile([1.0, -1.0], 20)
    shifted = compare(2 * true + 1.0, exact(true), GROUPS)
    assert shifted["bias"][0] == pytest.approx(0.5)
    # 3 and -1: where the truth is 1 and -1 every sign is right.
    assert shifted["sign"][0] == 1.0


def test_signs_are_compared_where_the_truth_has_one_and_zero_is_half_right():
    found = compare(np.zeros(40), exact(np.tile([1.0, -1.0], 20)), GROUPS)
    assert found["sign"][0] == 0.5
    assert found["correlation"] == [None] * 3
    true = Truth(np.tile([1.0, 0.1], 20), np.full(40, 0.01))
    estimate = np.tile([1.0, -1.0], 20)
    assert compare(estimate, true, GROUPS)["sign"][0] == 1.0


def test_intervals_draw_whole_groups():
    values = np.repeat(np.arange(10.0), 4)
    mean, low, high = interval(lambda at: float(values[at].mean()), GROUPS)
    assert mean == 4.5
    # Ten values, standard error 2.87 / sqrt(10), and not that of forty.
    assert high - low == pytest.approx(2 * 1.96 * 2.87 / 10**0.5, rel=0.15)
    assert interval(lambda at: 1.0, np.zeros(4, dtype=np.int64)) == [1.0, None, None]


def test_explained_variance_of_a_perfect_a_constant_and_a_wrong_critic():
    true = np.tile([0.0, 1.0], 20)
    for value, explained in ((true + 5, 1.0), (np.zeros(40), 0.0), (1 - true, -3.0)):
        assert explained_variance(value, exact(true), GROUPS)[0] == pytest.approx(explained)

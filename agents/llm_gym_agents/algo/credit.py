"""Compare advantage estimates with true advantages, which are measured with noise.

Turns of the same start are not independent, so intervals come from a bootstrap that resamples whole
groups of episodes.

Shapes: N turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DRAWS = 400
"""Draws of the bootstrap."""
CLEAR = 2.0
"""The sign of a true advantage is clear if it is this many standard errors from 0."""


class Truth(NamedTuple):
    """A mean over branches at each turn, and the variance of that mean."""

    mean_N: Floats
    variance_N: Floats

    @staticmethod
    def of(samples: Sequence[Sequence[float]]) -> Truth:
        """Return the means of ``samples``; a single sample, such as a known reward, has no noise.

        >>> Truth.of([[0.0, 1.0], [3.0]])
        Truth(mean_N=array([0.5, 3. ]), variance_N=array([0.25, 0.  ]))
        """
        means = [float(np.mean(own)) for own in samples]
        noise = [float(np.var(own, ddof=1)) / len(own) if len(own) > 1 else 0.0 for own in samples]
        return Truth(np.array(means), np.array(noise))

    def less(self, other: Truth) -> Truth:
        """Return this truth minus an independent one."""
        return Truth(self.mean_N - other.mean_N, self.variance_N + other.variance_N)

    @property
    def share(self) -> float:
        """The share of the variance that is not noise."""
        whole = float(self.mean_N.var())
        return max(0.0, 1.0 - float(self.variance_N.mean()) / whole) if whole > 0 else 0.0

    @property
    def ceiling(self) -> float:
        """The correlation that a perfect estimate would have with this noisy truth."""
        return math.sqrt(self.share)


def compare(
    estimate_N: Floats, truth: Truth, group_N: Ints, seed: int = 0
) -> dict[str, list[float | None]]:
    """Return correlation, sign agreement and bias of an estimate, each with its 95 % interval.

    Signs are compared only if the sign of the truth is clear; an estimate of 0 is half right. Bias
    is the mean of the estimate minus the mean of the truth, each divided by its own standard
    deviation, because estimators have different scales.
    """
    clear_N = np.abs(truth.mean_N) > CLEAR * np.sqrt(truth.variance_N)
    clear_N &= np.abs(truth.mean_N) > 1e-9
    half_N = 0.5 + 0.5 * np.sign(estimate_N) * np.sign(truth.mean_N)

    def sign(at: Ints) -> float:
        return float(half_N[at][clear_N[at]].mean()) if clear_N[at].any() else float("nan")

    def bias(at: Ints) -> float:
        return _in_deviations(estimate_N[at]) - _in_deviations(truth.mean_N[at])

    return {
        "correlation": interval(
            lambda at: correlation(estimate_N[at], truth.mean_N[at]), group_N, seed
        ),
        "sign": interval(sign, group_N, seed),
        "bias": interval(bias, group_N, seed),
    }


def explained_variance(
    value_N: Floats, truth: Truth, group_N: Ints, seed: int = 0
) -> list[float | None]:
    """Return the share of the truth's variance that values explain, with its 95 % interval."""

    def explained(at: Ints) -> float:
        whole = float(truth.mean_N[at].var())
        left = float((truth.mean_N[at] - value_N[at]).var())
        return 1.0 - left / whole if whole > 0 else float("nan")

    return interval(explained, group_N, seed)


def interval(
    statistic: Callable[[Ints], float], group_N: Ints, seed: int = 0
) -> list[float | None]:
    """Return a statistic of all turns and the ends of its 95 % interval; None if undefined."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(group_N == group) for group in np.unique(group_N)]
    whole = statistic(np.arange(len(group_N)))
    draws = rng.integers(len(members), size=(DRAWS if len(members) > 1 else 0, len(members)))
    drawn = [statistic(np.concatenate([members[at] for at in draw])) for draw in draws]
    known = [each for each in drawn if np.isfinite(each)]
    ends = np.quantile(known, [0.025, 0.975]).tolist() if known else [float("nan")] * 2
    return [float(each) if np.isfinite(each) else None for each in (whole, *ends)]


def correlation(x_N: Floats, y_N: Floats) -> float:
    """Return Pearson's correlation; NaN if one of them does not vary."""
    x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()
    size = float(np.sqrt((x_N @ x_N) * (y_N @ y_N)))
    return float(x_N @ y_N) / size if size > 1e-12 else float("nan")


def _in_deviations(values_N: Floats) -> float:
    deviation = float(values_N.std())
    return float(values_N.mean()) / deviation if deviation > 1e-12 else 0.0

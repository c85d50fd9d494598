"""The weight of the entropy bonus: which way it goes, and how far at a time."""

import math

import pytest

from llm_gym_agents.algo import EntropyController
from llm_gym_agents.algo.losses.controllers import DAMPING, GAIN


@pytest.mark.parametrize(("entropy", "error"), [(0.45, 0.1), (0.5, 0.0), (0.505, -0.01)])
def test_the_weight_answers_the_relative_error(entropy, error):
    expected = 0.01 * math.exp((GAIN + DAMPING) * error)
    assert EntropyController(0.01, target=0.5).update(entropy) == pytest.approx(expected)


def test_no_single_batch_decides_the_weight():
    controller = EntropyController(0.01, target=0.5)
    controller.update(50.0)
    assert controller.update(0.5) == pytest.approx(0.01 * math.exp(-GAIN))


def test_a_weight_without_a_target_stays():
    assert EntropyController(0.01).update(50.0) == 0.01

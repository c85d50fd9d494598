"""The trial that an engine makes of its model when it is built."""

import pytest
import torch

from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.tiny import tiny_model


@pytest.fixture
def coarse():
    """Products in TF32 allowed, as a learner on a GPU allows them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def test_a_model_is_tried_in_full_float32_whatever_training_allows(coarse):
    lm, seen = tiny_model(), []
    lm.model.layers[0].register_forward_pre_hook(
        lambda *_: seen.append(torch.get_float32_matmul_precision())
    )
    TransformersEngine(lm).close()
    assert set(seen) == {"highest"}
    assert torch.get_float32_matmul_precision() == "high"

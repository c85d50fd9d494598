"""Tests with the mark ``gpu`` are skipped where there is none."""

import pytest
import torch


def pytest_runtest_setup(item):
    """Skip before any fixture is made."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")

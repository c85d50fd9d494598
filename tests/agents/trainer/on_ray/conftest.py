"""Tests against a real Ray cluster on this machine: `make test-ray`. Without Ray, none of them."""

import importlib.util
import os

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("ray") else ["test_*.py"]
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def cluster():
    """One cluster for all tests; groups find it and leave it running."""
    from llm_gym_agents.config.schema import RayConfig
    from llm_gym_agents.trainer.ray.cluster import RayCluster

    made = RayCluster(RayConfig(num_actors=8))
    yield made
    made.close()

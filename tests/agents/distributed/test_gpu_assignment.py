"""Actors that want whole GPUs leave the learner its own."""

import pytest
import torch

from llm_gym_agents.config import RayConfig
from llm_gym_agents.distributed.ray.actor_pool import gpu_assignment


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def gpus(device="cuda", learners=0, **ray):
    return gpu_assignment(RayConfig(use_ray=True, **ray), torch.device(device), learners)


def test_the_learner_keeps_its_gpu_where_enough_are_left(four_gpus):
    assert gpus(num_actors=3) == ["1", "2", "3"]
    assert gpus("cuda:2", num_actors=3) == ["0", "1", "3"]
    assert gpus(num_actors=1, num_gpus_per_actor=2.0) == ["1", "2", "3"]
    assert gpus(num_actors=4) is None  # all of them, and the learner shares


def test_every_process_of_a_spread_learner_keeps_its_card(four_gpus):
    assert gpus(learners=2, num_actors=2) == ["2", "3"]
    assert gpus(learners=2, num_actors=3) is None


def test_gpus_go_by_the_names_that_this_process_sees(four_gpus):
    four_gpus.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    assert gpus(num_actors=2) == ["5", "7"]


def test_who_asks_for_a_share_or_brings_a_cluster_is_left_alone(four_gpus):
    assert gpus(num_actors=2, num_gpus_per_actor=0.3) is None
    assert gpus(num_actors=2, address="auto") is None
    assert gpus("cpu", num_actors=2) is None

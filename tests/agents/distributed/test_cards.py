"""Players that want whole cards leave the learner its own."""

import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.cards import players_cards


@pytest.fixture
def four_cards(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def cards(device="cuda", mode="none", **ray):
    return players_cards(
        ConfigStore.from_dict(
            {
                "model": {"device": device},
                "parallel": {"mode": mode},
                "ray": {"use_ray": True} | ray,
            }
        )
    )


def test_the_learner_keeps_its_card_where_enough_are_left(four_cards):
    assert cards(num_actors=3) == ["1", "2", "3"]
    assert cards("cuda:2", num_actors=3) == ["0", "1", "3"]
    assert cards(num_actors=1, num_gpus_per_actor=2.0) == ["1", "2", "3"]
    assert cards(num_actors=4) is None  # all of them, and the learner shares


def test_every_process_of_a_spread_learner_keeps_its_card(four_cards):
    four_cards.setenv("LOCAL_WORLD_SIZE", "2")
    assert cards(mode="fsdp", num_actors=2) == ["2", "3"]
    assert cards(mode="fsdp", num_actors=3) is None


def test_cards_go_by_the_names_that_this_process_sees(four_cards):
    four_cards.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    assert cards(num_actors=2) == ["5", "7"]


def test_who_asks_for_a_share_or_brings_a_cluster_is_left_alone(four_cards):
    assert cards(num_actors=2, num_gpus_per_actor=0.3) is None
    assert cards(num_actors=2, address="auto") is None
    assert cards("cpu", num_actors=2) is None

"""The plan of a run over cards: shares that add up, and one sentence where it cannot fit."""

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.memory_plan import (
    GIB,
    ModelShape,
    plan_distributed,
    plan_memory,
    plan_roles,
)
from tests.agents.tiny import save_tiny

SEVEN = ModelShape(
    parameters=7_600_000_000, hidden=3584, layers=28, mlp=18944, vocabulary=152_064, kv_width=512
)


def made(mode, world, *, use_ray=False, **model):
    config = ConfigStore()
    config.update({"parallel": {"mode": mode}, "model": model, "ray": {"use_ray": use_ray}})
    config.training.use_kl_in_loss = True
    one = plan_memory(
        SEVEN,
        micro_batch_tokens=8192,
        checkpointing=True,
        has_reference=True,
        engine_tokens=1 << 17,
    )
    return plan_roles(config, SEVEN, one, world=world), one


@pytest.mark.parametrize("world", [2, 8])
def test_what_is_spread_is_held_in_equal_shares_and_activations_are_not(world):
    spread, one = made("fsdp", world)
    for name in ("weights", "gradients", "optimizer", "reference"):
        assert getattr(spread.learner, name) == -(-getattr(one, name) // world)
    assert spread.learner.activations > one.activations
    copied, _ = made("ddp", world)
    assert copied.learner == one


def test_seven_billion_weights_are_refused_on_one_card_and_fit_eight():
    alone, _ = made("ddp", 8)
    with pytest.raises(ConfigError, match="the learner does not fit: learning needs 1"):
        alone.check(80 * GIB)
    spread, _ = made("fsdp", 8)
    spread.check(80 * GIB)


def test_players_that_are_apart_leave_the_learners_card_and_fill_their_own():
    apart, one = made("fsdp", 64, use_ray=True)
    assert apart.learner.engine == 0
    assert apart.player.engine == one.engine
    assert apart.player.resident == 0
    with pytest.raises(ConfigError, match="a player does not fit: playing needs"):
        apart.check(24 * GIB)


def test_a_critic_of_its_own_costs_as_much_again():
    shared, _ = made("fsdp", 4)
    separate, _ = made("fsdp", 4, critic="separate")
    assert separate.learner.weights == 2 * shared.learner.weights
    assert [role.name for role in separate.roles] == [
        "actor", "critic", "reference", "rollout", "reward"
    ]  # fmt: skip


def test_the_plan_is_one_line_a_role_and_an_ordinary_run_has_none(tmp_path, monkeypatch):
    config = ConfigStore()
    config.model.model_name = save_tiny(tmp_path / "model")
    assert plan_distributed(config) is None
    config.parallel.mode = "fsdp"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    head, *lines = plan_distributed(config).lines()
    assert head == "roles (GiB of each card):"
    assert [line.split()[0] for line in lines] == ["actor", "rollout", "reward"]
    assert "spread over 4 cards" in lines[0]

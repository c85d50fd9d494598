"""Optimizers, generators and modules go on bit by bit from a file."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from llm_gym_agents.run.checkpoints import TrainerState, load_checkpoint, save_checkpoint
from llm_gym_agents.run.state import (
    CheckpointError,
    module_state,
    optimizer_state,
    rng_state,
    set_module_state,
    set_optimizer_state,
    set_rng_state,
)
from tests.agents.checks import same
from tests.agents.run.checkpoint_run import tiny_lm


def two_layers(order=("a", "b"), sizes=(3, 2), dtype=torch.float32):
    torch.manual_seed(0)
    made = {"a": nn.Linear(sizes[0], 2), "b": nn.Linear(2, sizes[1])}
    return nn.ModuleDict({name: made[name] for name in order}).to(dtype)


def train(model, optimizer, steps, seed):
    torch.manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(4, 3, dtype=model["a"].weight.dtype)
        optimizer.zero_grad()
        model["b"](model["a"](x)).square().mean().backward()
        optimizer.step()


def through_a_file(tmp_path, part):
    save_checkpoint(tmp_path / "o", TrainerState(iteration=1, parts={"o": part}), lm=tiny_lm())
    return load_checkpoint(tmp_path / "o").parts["o"]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.99), amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
        lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
        lambda p: torch.optim.SGD(p, lr=1e-2),
        lambda p: torch.optim.Adafactor(p, lr=1e-2),
    ],
    ids=["amsgrad", "foreach", "fused", "momentum", "sgd", "adafactor"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_optimizer_resumes_bit_by_bit_from_a_file(tmp_path, make, dtype):
    model = two_layers(dtype=dtype)
    optimizer = make(model.parameters())
    train(model, optimizer, steps=3, seed=1)
    part = through_a_file(tmp_path, optimizer_state(optimizer, model))
    again = two_layers(order=("b", "a"), dtype=dtype)
    again.load_state_dict(model.state_dict())
    other = make(again.parameters())
    for group in other.param_groups:
        group["lr"] = 123.0
    set_optimizer_state(other, again, part)
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    train(model, optimizer, steps=3, seed=2)
    train(again, other, steps=3, seed=2)
    assert same(again.state_dict(), model.state_dict())


def test_states_wider_than_their_parameters_stay_wide(tmp_path):
    model = two_layers(dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(3.0),
            "exp_avg": torch.randn(parameter.shape),
            "exp_avg_sq": torch.rand(parameter.shape),
        }
    part = through_a_file(tmp_path, optimizer_state(optimizer, model))
    other = torch.optim.AdamW(model.parameters())
    set_optimizer_state(other, model, part)
    for parameter in model.parameters():
        assert same(other.state[parameter], optimizer.state[parameter])


def test_groups_keep_their_own_settings_and_parameters(tmp_path):
    model = two_layers()

    def make(rates):
        groups = [{"params": model[name].parameters(), "lr": rate} for name, rate in rates]
        return torch.optim.AdamW(groups)

    optimizer = make([("a", 0.1), ("b", 0.2)])
    part = through_a_file(tmp_path, optimizer_state(optimizer, model))
    other = make([("a", 1.0), ("b", 1.0)])
    set_optimizer_state(other, model, part)
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.2]
    assert other.param_groups[0]["betas"] == (0.9, 0.999)
    with pytest.raises(CheckpointError, match="groups"):
        set_optimizer_state(make([("b", 1.0), ("a", 1.0)]), model, part)


def test_an_optimizer_of_something_else_is_refused():
    model = two_layers()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 1, 0)
    part = optimizer_state(optimizer, model)
    with pytest.raises(CheckpointError, match="AdamW"):
        set_optimizer_state(torch.optim.SGD(model.parameters()), model, part)
    with pytest.raises(CheckpointError, match=r"b\.bias"):
        set_optimizer_state(torch.optim.AdamW(model["a"].parameters()), model, part)
    wider = two_layers(sizes=(4, 2))
    with pytest.raises(CheckpointError, match=r"a\.weight"):
        set_optimizer_state(torch.optim.AdamW(wider.parameters()), wider, part)


# --- generators and modules --------------------------------------------------------------


def draw():
    return (
        torch.rand(3).tolist(),
        torch.randn(1).item(),
        np.random.random(3).tolist(),  # noqa: NPY002 - the global generator is the subject
        np.random.normal(),  # noqa: NPY002
        random.random(),
        random.gauss(0, 1),
    )


def test_every_global_generator_resumes_where_it_was(tmp_path):
    draw()  # a gaussian leaves a second number behind, which is part of the state
    state = rng_state()
    expected = [draw(), draw()]
    part = through_a_file(tmp_path, state)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    set_rng_state(part)
    assert [draw(), draw()] == expected


def test_a_module_takes_only_its_own_weights():
    model = two_layers()
    part = module_state(model, skip=("a.",))
    assert sorted(part.tensors) == ["b.bias", "b.weight"]
    kept = model["b"].weight.clone()
    other = two_layers()
    nn.init.zeros_(other["b"].weight)
    pointer = other["b"].weight
    set_module_state(other, part, skip=("a.",))
    assert torch.equal(other["b"].weight, kept)
    assert other["b"].weight is pointer
    with pytest.raises(CheckpointError, match=r"a\.bias"):
        set_module_state(model, part)
    with pytest.raises(CheckpointError, match=r"b\.weight"):
        set_module_state(two_layers(sizes=(3, 5)), part, skip=("a.",))

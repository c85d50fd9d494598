"""Slots of pushed weights in vLLM, and what vLLM is told of memory."""

import importlib.machinery
import os
import sys
import types

import pytest
import torch
from torch import nn

from llm_gym_agents.engines.vllm import runtime
from llm_gym_agents.engines.vllm.worker import ParamSlots


class Served(nn.Module):
    """Weights as vLLM keeps them: some packed, some padded, some in a way of their own."""

    packed_modules_mapping = {"qkv": ["q", "k", "v"], "gate_up": ["gate", "up"]}

    def __init__(self):
        super().__init__()
        self.qkv, self.gate_up = nn.Linear(4, 12, bias=False), nn.Linear(4, 10, bias=False)
        self.embed, self.norm = nn.Embedding(8, 4), nn.Parameter(torch.ones(4))
        self.turned = nn.Linear(4, 4, bias=False)

    def load_weights(self, named):
        given = dict(named)
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([given[f"{each}.weight"] for each in "qkv"]))
            self.gate_up.weight.copy_(torch.cat([given["gate.weight"], given["up.weight"]]))
            self.embed.weight[:7].copy_(given["embed.weight"])
            self.norm.copy_(given["norm"])
            self.turned.weight.copy_(given["turned.weight"].T)


def weights(seed, *names):
    dice = torch.Generator().manual_seed(seed)
    shapes = {
        "q.weight": (6, 4), "k.weight": (3, 4), "v.weight": (3, 4), "gate.weight": (5, 4),
        "up.weight": (5, 4), "embed.weight": (7, 4), "norm": (4,), "turned.weight": (4, 4),
    }  # fmt: skip
    made = {name: torch.randn(shape, generator=dice) for name, shape in shapes.items()}
    return [(name, made[name]) for name in names or made]


PLAIN = tuple(name for name, _ in weights(0) if name != "turned.weight")


def learned(seed=0):
    model = Served()
    model.load_weights(weights(seed))
    slots = ParamSlots(model)
    slots.learn(weights(seed))
    return model, slots


def test_a_push_to_known_places_leaves_what_loading_leaves():
    model, slots = learned()
    reached = slots.write(weights(1, *PLAIN))
    other = Served()
    other.load_weights(weights(1))
    assert reached == ["embed.weight", "gate_up.weight", "norm", "qkv.weight"]
    for name in reached:
        wanted, found = other.get_parameter(name), model.get_parameter(name)
        assert torch.equal(found[:7], wanted[:7])


def test_rows_of_padding_are_left_alone():
    model, slots = learned()
    before = model.embed.weight[7].clone()
    slots.write(weights(1, "embed.weight"))
    assert torch.equal(model.embed.weight[7], before)


def test_a_weight_that_is_kept_in_another_way_has_no_place_and_nothing_is_written():
    model, slots = learned()
    before = [each.detach().clone() for each in model.parameters()]
    assert slots.write(weights(1)) is None
    assert all(map(torch.equal, before, model.parameters()))


def test_a_weight_of_another_shape_is_not_written_to_the_place_of_its_name():
    _, slots = learned()
    assert slots.write([("norm", torch.ones(5))]) is None


def test_a_part_whose_siblings_were_never_seen_has_no_place():
    model = Served()
    model.load_weights(weights(0))
    slots = ParamSlots(model)
    slots.learn(weights(0, "v.weight", "up.weight"))
    assert slots.write(weights(1, "v.weight")) is None


def test_a_wider_weight_is_cast_as_loading_casts_it():
    model = Served().bfloat16()
    model.load_weights(weights(0))
    slots = ParamSlots(model)
    slots.learn(weights(0))
    assert slots.write(weights(1, "norm", "q.weight")) == ["norm", "qkv.weight"]
    (_, norm), (_, query) = weights(1, "norm", "q.weight")
    assert torch.equal(model.norm, norm.bfloat16())
    assert torch.equal(model.qkv.weight[:6], query.bfloat16())


class LLM:
    def __init__(self, path, **settings):
        self.settings, self.cpu_cache = settings, os.environ["VLLM_CPU_KVCACHE_SPACE"]


@pytest.fixture
def started(monkeypatch):
    def start(is_cpu=False, **settings):
        vllm, platforms = types.ModuleType("vllm"), types.ModuleType("vllm.platforms")
        vllm.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
        vllm.LLM = LLM
        platforms.current_platform = types.SimpleNamespace(is_cpu=lambda: is_cpu)
        monkeypatch.setitem(sys.modules, "vllm", vllm)
        monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
        return runtime.start("model", separate=True, gpu_memory_utilization=0.7, **settings)

    return start


def test_a_share_is_passed_on_where_no_size_is_given(started):
    llm = started()
    assert llm.settings["gpu_memory_utilization"] == 0.7
    assert "kv_cache_memory_bytes" not in llm.settings
    assert llm.cpu_cache == "1"


def test_on_a_gpu_a_size_takes_the_place_of_the_share(started):
    llm = started(cache_gb=4)
    assert llm.settings["kv_cache_memory_bytes"] == 4 * 2**30
    assert llm.settings["gpu_memory_utilization"] < 0.05, "others may hold nearly all of the card"


def test_on_a_gpu_graphs_are_recorded_for_the_turns_of_many_games_unless_none_are_wanted(started):
    sizes = started().settings["compilation_config"]["cudagraph_capture_sizes"]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, 2048)
    assert "compilation_config" not in started(enforce_eager=True).settings
    assert "compilation_config" not in started(is_cpu=True).settings


def test_on_a_cpu_a_size_is_told_as_it_always_was(started):
    llm = started(is_cpu=True, cache_gb=3)
    assert llm.cpu_cache == "3"
    assert "kv_cache_memory_bytes" not in llm.settings

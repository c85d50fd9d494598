"""After a push the engine's own weights, read back, are the trainer's: to the bit."""

import copy
import functools

import pytest
import torch

from llm_gym_agents.engines.base import StaleWeightsError
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.engines.weight_check import WeightCheck
from llm_gym_agents.engines.weight_sums import weight_sums
from llm_gym_agents.learn.publish import Publisher
from tests.agents.tiny import FAMILIES, tiny_model


class Served(TransformersEngine):
    """An engine with a model of its own; ``misses`` are weights that its pushes do not reach."""

    shares_model = False
    misses = ()

    def update_weights(self, named_tensors, version):
        own = dict(self.model.named_parameters())
        kept = {name: own[name].clone() for name in self.misses}
        super().update_weights(named_tensors, version)
        with torch.no_grad():
            for name, tensor in kept.items():
                own[name].copy_(tensor)


def serve(lm, dtype=torch.float32):
    return Served(copy.deepcopy(lm).to(dtype))


def checked(engine):
    """Return a check whose pushes go to ``engine``."""
    check = WeightCheck(engine.packed_weights)
    check.push = functools.partial(check.push, engine)
    return check


@torch.no_grad()
def step(lm, rate):
    """Move every weight by about ``rate``, as Adam's first step does."""
    chance = torch.Generator().manual_seed(3)
    for weight in lm.parameters():
        weight.add_(rate * torch.randn(weight.shape, generator=chance).sign())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_push_is_whole(family):
    lm = tiny_model(family)
    engine = serve(tiny_model(family, seed=9))
    check = checked(engine)
    for version in (1, 2):
        assert check.push(lm.named_parameters(), version) == len(list(lm.parameters()))
        step(lm, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("part", ["embed_tokens", "layers.1.self_attn.k_proj", "norm"])
def test_one_layer_that_missed_one_push_at_a_tiny_rate_is_named(dtype, part):
    lm = tiny_model()
    engine = serve(lm, dtype)
    check = checked(engine)
    name = next(name for name, _ in lm.named_parameters() if part in name)
    # At 1e-7 a number near 1 does not move in bfloat16; one near 1e-5 does, and that is enough.
    with torch.no_grad():
        dict(lm.named_parameters())[name].view(-1)[0] = 1e-5
    check.push(lm.named_parameters(), 1)
    engine.misses = [name]
    step(lm, 1e-7)
    with pytest.raises(StaleWeightsError, match=f"version 2: {name} differs"):
        check.push(lm.named_parameters(), 2)


def test_a_push_that_nobody_takes_is_caught_by_the_publisher_at_a_tiny_rate():
    lm = tiny_model()
    engine = serve(lm)
    publisher = Publisher(engine, lm)
    publisher.publish(0)
    engine.update_weights = lambda named, version: setattr(engine, "version", version)
    step(lm, 1e-7)
    with pytest.raises(StaleWeightsError, match="does not hold the weights of version 1"):
        publisher.publish(1)


def test_what_an_engine_casts_is_compared_as_it_casts():
    lm = tiny_model()
    check = checked(serve(lm, torch.bfloat16))
    assert check.push(lm.named_parameters(), 1) == len(list(lm.parameters()))


class Fused(Served):
    """Keeps q, k, v as one, has some rows of padding, and names one weight as nobody else does."""

    def weight_sums(self):
        own = {name: weight.detach() for name, weight in self.model.named_parameters()}
        kept = {}
        for name, weight in own.items():
            if "q_proj" in name:
                parts = [own[name.replace("q_proj", each)] for each in ("q_proj", "k_proj")]
                parts.append(own[name.replace("q_proj", "v_proj")])
                kept[name.replace("q_proj", "qkv_proj")] = torch.cat(self.swapped(parts))
            elif "embed_tokens" in name:
                kept[name] = torch.cat([weight, torch.zeros(8, weight.shape[1])])
            elif "lm_head" in name:
                kept["head.own_name"] = weight.t()
            elif "k_proj" not in name and "v_proj" not in name:
                kept[name] = weight.t() if "o_proj" in name else weight
        return [weight_sums(kept.items())]

    swaps = False

    def swapped(self, parts):
        return [parts[0], parts[2], parts[1]] if self.swaps else parts


@pytest.fixture
def lm():
    return tiny_model(tie_word_embeddings=False)


@pytest.fixture
def fused(lm):
    return Fused(copy.deepcopy(lm))


def test_fused_padded_turned_and_renamed_weights_are_compared_too(lm, fused):
    assert checked(fused).push(lm.named_parameters(), 1) == len(list(lm.parameters()))


@pytest.mark.parametrize("part", ["k_proj", "embed", "o_proj", "lm_head", "up_proj"])
def test_none_of_them_may_miss_a_push(lm, fused, part):
    check = checked(fused)
    check.push(lm.named_parameters(), 0)
    fused.misses = [next(name for name, _ in lm.named_parameters() if part in name)]
    step(lm, 1e-7)
    with pytest.raises(StaleWeightsError, match="version 1"):
        check.push(lm.named_parameters(), 1)


def test_parts_that_changed_places_are_noticed(lm, fused):
    check = checked(fused)
    check.push(lm.named_parameters(), 0)
    fused.swaps = True
    with pytest.raises(StaleWeightsError, match="qkv_proj"):
        check.push(lm.named_parameters(), 1)


class Split(Served):
    """Two workers: projections are split between them, the rest each has whole."""

    stale = None

    def weight_sums(self):
        shards = []
        for worker in range(2):
            kept = {}
            for name, weight in self.model.named_parameters():
                mine = weight.detach().chunk(2)[worker] if "proj" in name else weight.detach()
                kept[name] = mine + 1.0 if (worker, name) == self.stale else mine
            shards.append(weight_sums(kept.items()))
        return shards


def test_shards_of_several_workers_add_up(lm):
    engine = Split(copy.deepcopy(lm))
    check = checked(engine)
    assert check.push(lm.named_parameters(), 1) == len(list(lm.parameters()))
    for stale in ((1, "model.layers.0.mlp.up_proj.weight"), (1, "model.norm.weight")):
        engine.stale = stale
        with pytest.raises(StaleWeightsError, match=stale[1]):
            check.push(lm.named_parameters(), 2)


class Silent(Served):
    def weight_sums(self):
        return None


def test_an_engine_that_cannot_be_read_back_is_not_called_proven(lm):
    assert checked(Silent(copy.deepcopy(lm))).push(lm.named_parameters(), 1) == 0

"""A push is whole to the bit, where weights can be read back; where not, a probe samples alike."""

import copy
import functools
from unittest.mock import Mock

import pytest
import torch

from llm_gym_agents.engines import weight_check as module
from llm_gym_agents.engines.base import StaleWeightsError
from llm_gym_agents.engines.publish import CHECKED, PROBE_GAP, PUBLISH_SECONDS, Publisher
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.engines.weight_check import (
    COARSE,
    FACTOR,
    FINE,
    HOPELESS,
    Allowance,
    Probe,
    WeightCheck,
)
from llm_gym_agents.engines.weight_push import weight_sums
from tests.agents.tiny import FAMILIES, tiny_model
from tests.matrix import one_in


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


@pytest.mark.parametrize("family", one_in(3, FAMILIES))
def test_a_complete_push_is_confirmed_and_leaves_no_gap(family):
    lm = tiny_model(family)
    engine = serve(tiny_model(family, seed=9))
    check = checked(engine)
    for version in (1, 2):
        assert check.push(lm.named_parameters(), version) == len(list(lm.parameters()))
        assert Probe(lm).check(engine) < 1e-5
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
    with pytest.raises(StaleWeightsError, match=f"version 2: {name}"):
        check.push(lm.named_parameters(), 2)


class Fused(Served):
    """Keeps q, k, v as one, has some rows of padding, and gives one weight an unusual name."""

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
        return weight_sums(kept.items())

    swaps = False

    def swapped(self, parts):
        return [parts[0], parts[2], parts[1]] if self.swaps else parts


@pytest.fixture
def lm():
    return tiny_model(tie_word_embeddings=False)


@pytest.fixture
def fused(lm):
    return Fused(copy.deepcopy(lm))


def test_fused_weights_are_compared_if_they_can_be_read_back(lm, fused):
    assert checked(fused).push(lm.named_parameters(), 1) == len(list(lm.parameters()))
    fused.weight_sums = lambda: None
    assert checked(fused).push(lm.named_parameters(), 1) == 0


@pytest.mark.parametrize("part", ["k_proj", "embed", "o_proj", "lm_head", "up_proj"])
def test_any_fused_weight_that_misses_a_push_is_noticed(lm, fused, part):
    check = checked(fused)
    check.push(lm.named_parameters(), 0)
    fused.misses = [next(name for name, _ in lm.named_parameters() if part in name)]
    step(lm, 1e-7)
    with pytest.raises(StaleWeightsError, match="version 1"):
        check.push(lm.named_parameters(), 1)


def test_swapped_parts_of_a_fused_weight_are_noticed(lm, fused):
    check = checked(fused)
    check.push(lm.named_parameters(), 0)
    fused.swaps = True
    with pytest.raises(StaleWeightsError, match="qkv_proj"):
        check.push(lm.named_parameters(), 1)


@pytest.mark.parametrize("part", ["embed_tokens", "layers.0.self_attn.o_proj", "lm_head"])
def test_the_probe_notices_one_changed_layer(part):
    lm = tiny_model()
    engine = serve(lm)
    with torch.no_grad():
        for name, weight in lm.named_parameters():
            if part in name:
                weight.mul_(1.2)
    with pytest.raises(StaleWeightsError, match=r"version 0: .*0\.02"):
        Probe(lm).check(engine)


KINDS = [
    (torch.float32, torch.float32, FINE),
    (torch.bfloat16, torch.float32, COARSE),
    (torch.float32, torch.bfloat16, COARSE),
    (torch.float16, torch.float16, COARSE),
]


def with_gaps(probe, *gaps):
    """Return the probe with these gaps, one after another."""
    probe.gap = Mock(side_effect=gaps)
    return probe


def kind(served, trained):
    engine = serve(tiny_model())
    engine.dtype = served
    return engine, Probe(tiny_model().to(trained))


@pytest.mark.parametrize(("served", "trained", "allowance"), KINDS)
def test_a_gap_is_allowed_by_precision_and_by_the_first_one(served, trained, allowance):
    start = 0.5 * allowance.most / FACTOR
    for first, *later, last in (
        (0.0, 0.9 * allowance.least, 1.1 * allowance.least),
        (start, 0.99 * FACTOR * start, 1.01 * FACTOR * start),
        (0.9 * allowance.most, 1.1 * allowance.most),
    ):
        engine, probe = kind(served, trained)
        with_gaps(probe, first, *later, last)
        assert [probe.check(engine) for _ in (first, *later)] == [first, *later]
        with pytest.raises(StaleWeightsError):
            probe.check(engine)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16
def test_bfloat16_rounding_is_not_taken_for_stale_weights():
    lm = tiny_model()
    assert 1e-4 < Probe(lm).check(narrow_copy(lm)) < COARSE.most


def sharpened(lm, by):
    with torch.no_grad():
        lm.lm_head.weight.mul_(by)
    return narrow_copy(lm)


def narrow_copy(lm):
    engine = serve(lm, torch.bfloat16)
    engine.dtype = torch.bfloat16
    return engine


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_a_sharper_model_may_round_more_than_at_the_start(monkeypatch):
    """Two of eighteen runs on a GPU were stopped at 0.17, where 0.167 was allowed."""
    monkeypatch.setattr(module, "COARSE", Allowance(1e-3, 0.2))
    lm = tiny_model()
    probe = Probe(lm)
    start = probe.check(sharpened(lm, 0.1))
    assert probe.check(sharpened(lm, 80.0)) > FACTOR * start
    stale = sharpened(lm, 1.0)
    with torch.no_grad():
        lm.model.layers[0].self_attn.o_proj.weight.mul_(1.5)
    with pytest.raises(StaleWeightsError):
        probe.check(stale)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_no_rounding_explains_samples_of_another_model():
    engine, probe = kind(torch.bfloat16, torch.float32)
    probe.rounding = lambda *_: 10.0
    assert with_gaps(probe, 0.9 * HOPELESS).check(engine) == 0.9 * HOPELESS
    for gap in (1.1 * HOPELESS, float("nan")):
        with pytest.raises(StaleWeightsError, match=r"0\.5"):
            with_gaps(probe, gap).check(engine)


# --- publishing -------------------------------------------------------------------------------


def test_publishing_pushes_and_probes():
    lm = tiny_model()
    engine = serve(tiny_model(seed=9))
    publisher = Publisher(engine, lm)
    metrics = publisher.publish(4)
    assert metrics.keys() == {PROBE_GAP, CHECKED, PUBLISH_SECONDS}
    assert metrics[CHECKED] == len(list(lm.parameters()))
    assert metrics[PROBE_GAP] < 1e-5
    assert engine.version == 4


@pytest.mark.parametrize(
    ("has_sums", "probed"), [(True, [1, 2, 3, 4, 8, 16]), (False, list(range(1, 18)))]
)
def test_confirmed_weights_are_probed_now_and_then(monkeypatch, has_sums, probed):
    lm = tiny_model()
    engine = serve(lm)
    if not has_sums:
        monkeypatch.setattr(engine, "weight_sums", lambda: None)
    publisher = Publisher(engine, lm)
    results = {push: publisher.publish(push) for push in range(1, 18)}
    assert [push for push, found in results.items() if PROBE_GAP in found] == probed


def test_an_engine_that_shares_the_model_needs_no_probe(monkeypatch):
    lm = tiny_model()
    engine = TransformersEngine(lm)
    monkeypatch.setattr(engine, "generate", None)  # nothing is sampled
    assert Publisher(engine, lm).publish(4) == {}
    assert engine.version == 4


@pytest.mark.parametrize(("make", "times"), [(TransformersEngine, 1), (serve, 0)])
def test_only_an_engine_that_shares_the_model_has_its_cache_emptied(monkeypatch, make, times):
    lm = tiny_model()
    engine, pushed = make(lm), []
    monkeypatch.setattr(engine, "update_weights", lambda *args: pushed.append(args[1]))
    engine.version = 3
    Publisher(engine, lm).empty_cache()
    assert pushed == [3] * times


def test_an_engine_is_woken_before_a_push(monkeypatch):
    lm = tiny_model()
    engine, calls = serve(lm), []
    monkeypatch.setattr(engine, "wake", lambda: calls.append("wake"))
    update = engine.update_weights
    monkeypatch.setattr(
        engine, "update_weights", lambda *args: (calls.append("update"), update(*args))
    )
    Publisher(engine, lm).publish(1)
    assert calls == ["wake", "update"]

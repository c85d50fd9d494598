"""Weights as a serving engine is given them: names of Hugging Face, adapters merged."""

import copy

import pytest
import torch

from llm_gym_agents.model.weights import served_weights
from tests.agents.checks import copied, same
from tests.agents.tiny import FAMILIES, tiny_model

peft = pytest.importorskip("peft")
IDS = torch.tensor([[5, 17, 200, 3, 3, 90]])


def adapted(lm, wrap=False):
    settings = peft.LoraConfig(
        r=2, lora_alpha=8, target_modules="all-linear", init_lora_weights=False
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = (
            peft.get_peft_model(lm, settings)
            if wrap
            else peft.inject_adapter_in_model(settings, lm)
        )
    return made.eval()


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


def loaded(fresh, weights):
    """Put ``weights`` into a model that never had adapters."""
    found = fresh.load_state_dict(dict(weights), strict=False)
    assert found.unexpected_keys == []
    tied = [] if not fresh.config.tie_word_embeddings else ["lm_head.weight"]
    assert found.missing_keys in ([], tied)
    return fresh


@pytest.mark.parametrize("family", FAMILIES)
def test_served_weights_without_adapters_are_the_models_own(family):
    lm = tiny_model(family)
    weights = list(served_weights(lm))
    own = dict(lm.named_parameters())
    assert [name for name, _ in weights] == list(own)
    for name, weight in weights:
        assert weight.data_ptr() == own[name].data_ptr(), "no copy is made"
        assert not weight.requires_grad


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("wrap", [True, False])
def test_served_weights_of_an_adapted_model_are_merged(wrap, tied):
    plain = tiny_model(tie_word_embeddings=tied)
    before = logits(plain)
    lm = adapted(copy.deepcopy(plain), wrap)
    wanted = logits(lm)
    assert (wanted - before).abs().max() > 0.1
    weights = list(served_weights(lm))
    assert [name for name, _ in weights] == [name for name, _ in plain.named_parameters()]
    assert all(not weight.requires_grad for _, weight in weights)
    other = tiny_model(seed=7, tie_word_embeddings=tied)
    torch.testing.assert_close(logits(loaded(other, weights)), wanted, atol=1e-5, rtol=1e-5)


def test_merging_leaves_the_model_as_it_was():
    lm = adapted(tiny_model())
    before = copied(lm)
    list(served_weights(lm))
    assert same(lm.state_dict(), before)

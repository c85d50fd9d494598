"""Fresh prompts are read without padding, and what is sampled from them is the same."""

import functools
import random

import pytest
import torch

from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.transformers import prefill
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import worst_error
from tests.agents.tiny import VOCABULARY, tiny_model
from tests.agents.work import TensorWork

LENGTHS = (21, 3, 40, 17, 33, 9)
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def requests():
    rng = random.Random(5)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(length)] for length in LENGTHS]
    return [Request(each, Sampling(max_tokens=7), seed=at) for at, each in enumerate(prompts)]


def built(family):
    return tiny_model(family, **({"sliding_window": None} if family == "mistral" else {}))


def sampled(model, monkeypatch, *, packed, **settings):
    """Return what an engine samples, and what its cache holds of the prompts, by layer."""
    if not packed:
        monkeypatch.setattr(prefill, "can_pack", lambda *_: False)
    engine = TransformersEngine(model, **settings)
    done = engine.generate(requests())
    return done, [states for layer in engine._decoder.cache._own for states in layer.states]


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_sampled_and_cached_is_that_of_padded_prompts(family, prefix_cache, monkeypatch):
    model = built(family)
    assert prefill.can_pack(model.base_model, [each.prompt for each in requests()])
    ours = sampled(model, monkeypatch, packed=True, prefix_cache=prefix_cache)
    theirs = sampled(model, monkeypatch, packed=False, prefix_cache=prefix_cache)
    assert [done.ids for done in ours[0]] == [done.ids for done in theirs[0]]
    for one, other in zip(ours[1], theirs[1], strict=True):
        for slot, length in enumerate(LENGTHS):  # beyond its own ids a padded row holds anything
            torch.testing.assert_close(
                one[slot, :length], other[slot, :length], atol=2e-6, rtol=1e-5
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_are_those_of_the_model_itself(family):
    model = built(family)
    asked = requests()
    done = TransformersEngine(model).generate(asked)
    assert worst_error(model, asked, done) < 1e-5


def first_read(model, monkeypatch):
    """Return the ids of the first forward, and the numbers that sampling one token each makes."""
    counts, forward = [], model.base_model.forward

    @functools.wraps(forward)
    def counting(*args, **kwargs):
        counts.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    engine = TransformersEngine(model, prefix_cache=False)
    monkeypatch.setattr(model.base_model, "forward", counting)
    with TensorWork() as work:
        engine.generate([Request(each.prompt, Sampling(max_tokens=1)) for each in requests()])
    return counts, work.numbers


def test_no_id_is_read_that_nobody_wrote_and_the_last_layer_is_for_last_ids(monkeypatch):
    counts, numbers = first_read(tiny_model(), monkeypatch)
    assert sum(counts) == sum(LENGTHS)
    monkeypatch.setattr(prefill, "can_pack", lambda *_: False)
    padded, all_numbers = first_read(tiny_model(), monkeypatch)
    assert sum(padded) > sum(LENGTHS)
    assert numbers < 0.7 * all_numbers


def test_layers_of_another_make_are_read_with_padding(monkeypatch):
    model = tiny_model("gpt2")
    assert not prefill.can_pack(model.base_model, [each.prompt for each in requests()])
    counts, _ = first_read(model, monkeypatch)
    assert sum(counts) > sum(LENGTHS)

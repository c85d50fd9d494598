"""The transformers engine: exact, independent of company, and where a reply ends."""

import random
from dataclasses import replace

import pytest
import torch
from transformers import AttentionInterface

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import FinishReason, Request, Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import TOLERANCE, some_requests, worst_error
from tests.agents.tiny import FAMILIES, tiny_model, tiny_tokenizer
from tests.matrix import one_in

# --- exactness ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "settings"),
    [*((each, {}) for each in FAMILIES), ("llama", {"attn_implementation": "eager"})],
)
def test_log_probs_are_those_of_a_plain_forward(family, settings):
    model = tiny_model(family, **settings)
    requests = some_requests(10)
    engine = TransformersEngine(model, end_ids=[])
    completions = engine.generate(requests)
    assert [done.key for done in completions] == [request.key for request in requests]
    assert [len(done.ids) for done in completions] == [r.sampling.max_tokens for r in requests]
    assert worst_error(model, requests, completions) <= TOLERANCE


@pytest.mark.parametrize("family", one_in(3, FAMILIES))
def test_greedy_replies_are_those_of_generate(family):
    model = tiny_model(family)
    engine = TransformersEngine(model, end_ids=[])
    requests = some_requests(4, temperature=0, most=20)
    for request, done in zip(requests, engine.generate(requests), strict=True):
        ids = torch.tensor([request.prompt])
        whole = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request.sampling.max_tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert whole[0, len(request.prompt) :].tolist() == done.ids


def test_an_attention_that_takes_no_mask_is_replaced_while_generating(engine):
    AttentionInterface.register("tests_refuse", lambda *args, **kwargs: pytest.fail("called"))
    requests, other = some_requests(4), tiny_model()
    other.config._attn_implementation = "tests_refuse"
    found = TransformersEngine(other, end_ids=[]).generate(requests)
    assert found == engine.generate(requests)
    assert other.config._attn_implementation == "tests_refuse"


# --- company ------------------------------------------------------------------------------


KINDS = ({}, {"temperature": 0}, {"temperature": 0.5, "top_p": 0.3}, {"top_p": 0.5})


def test_replies_do_not_depend_on_settings_order_or_number_of_others(model):
    requests = [
        replace(each, sampling=replace(each.sampling, **KINDS[at % 4]))
        for at, each in enumerate(some_requests(60, most=12, longest=30))
    ]
    together = TransformersEngine(model, end_ids=[]).generate(requests)
    assert worst_error(model, requests, together) <= TOLERANCE
    engine = TransformersEngine(model, end_ids=[], max_rows=7)
    order = random.Random(1).sample(range(60), 60)
    shuffled = engine.generate([requests[at] for at in order])
    for at, done in zip(order, shuffled, strict=True):
        assert done.ids == together[at].ids
        assert done.log_probs == pytest.approx(together[at].log_probs, abs=TOLERANCE)
    engine = TransformersEngine(model, end_ids=[], prefix_cache=False)
    for request, done in zip(requests[:10], together, strict=False):
        assert engine.generate([request])[0].ids == done.ids


# --- the end of a reply -------------------------------------------------------------------


def test_an_end_id_ends_a_reply_and_is_part_of_it(model):
    def reply(end_ids, **sampling):
        engine = TransformersEngine(model, end_ids=end_ids)
        return engine.generate([Request([5, 6], Sampling(**sampling), seed=3)])[0]

    free = reply([], max_tokens=20)
    end = free.ids[10]
    length = free.ids.index(end) + 1
    for done in (reply([end]), reply([], stop_ids=(end,)), reply([end], max_tokens=length)):
        assert (done.ids, done.finish) == (free.ids[:length], FinishReason.STOP)


def test_end_ids_come_from_model_and_tokenizer(model):
    assert TransformersEngine(model).end_ids == {258}
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = "<|im_end|>"
    engine = TransformersEngine(model, tokenizer=tokenizer)
    assert engine.end_ids == {258, tokenizer.convert_tokens_to_ids("<|im_end|>")}


def test_stop_strings_end_a_reply_also_across_tokens(model):
    tokenizer = tiny_tokenizer()
    engine = TransformersEngine(model, tokenizer=tokenizer, end_ids=[])
    free = engine.generate([Request([5, 6], Sampling(max_tokens=99), seed=3)])[0].ids
    at = next(at for at in range(3, 99) if all(32 < token < 127 for token in free[at : at + 2]))
    text = chr(free[at]) + chr(free[at + 1])
    first = next(n for n in range(2, 99) if text in tokenizer.decode(free[:n]))
    stopped = engine.generate([Request([5, 6], Sampling(stop_strings=("no such", text)), seed=3)])[
        0
    ]
    assert stopped.ids == free[:first]
    assert stopped.finish is FinishReason.STOP
    with pytest.raises(ConfigError, match="tokenizer"):
        TransformersEngine(model).submit([Request([5], Sampling(stop_strings=("x",)))])


def test_a_reply_ends_with_the_context():
    model = tiny_model("gpt2", n_positions=20, max_position_embeddings=20)
    engine = TransformersEngine(model, end_ids=[])
    requests = [Request(list(range(n)), seed=n) for n in (1, 8, 19)] * 2
    completions = engine.generate(requests)
    assert [len(done.ids) for done in completions] == [19, 12, 1] * 2
    assert {done.finish for done in completions} == {FinishReason.LENGTH}
    assert worst_error(model, requests, completions) <= TOLERANCE
    again = engine.generate(requests)  # now every prompt is known
    assert [done.ids for done in again] == [done.ids for done in completions]


# --- the model afterwards -----------------------------------------------------------------


def test_the_model_is_left_in_the_mode_it_was_in():
    model = tiny_model("gpt2", attn_pdrop=0.5, resid_pdrop=0.5, embd_pdrop=0.5)
    engine = TransformersEngine(model, end_ids=[])
    model.train()
    model.transformer.h[1].eval()
    modes = [module.training for module in model.modules()]
    requests = some_requests(8)
    done = engine.generate(requests)
    engine.score([[1, 2, 3]])
    assert [module.training for module in model.modules()] == modes
    assert worst_error(model, requests, done) <= TOLERANCE  # no dropout
    loss = model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


# --- on a GPU -----------------------------------------------------------------------------

REQUESTS = [
    Request([(7 * at + step) % 256 for step in range(at + 1)], Sampling(max_tokens=12), seed=at)
    for at in range(24)
]


@pytest.mark.gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_replies_and_log_probs_on_a_gpu_are_those_of_a_cpu(family):
    model = tiny_model(family).cuda()
    found = TransformersEngine(model, end_ids=[]).generate(REQUESTS)
    assert worst_error(model, REQUESTS, found) <= TOLERANCE
    wanted = TransformersEngine(tiny_model(family), end_ids=[]).generate(REQUESTS)
    assert [done.ids for done in found] == [done.ids for done in wanted]


@pytest.mark.gpu
def test_a_model_may_move_between_batches():
    model = tiny_model()
    engine = TransformersEngine(model, end_ids=[])
    wanted = [done.ids for done in engine.generate(REQUESTS)]
    for device in ("cuda", "cpu", "cuda"):
        model.to(device)
        assert [done.ids for done in engine.generate(REQUESTS)] == wanted
    engine.close()

"""What was read once is not read again; fresh prompts are read without padding."""

import functools
import random

import pytest
import torch

from llm_gym_agents.engines.base import EngineError, Request, Sampling
from llm_gym_agents.engines.transformers import prefill
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.engines.transformers.slot_cache import SlotPool
from tests.agents.checks import copied
from tests.agents.engines.truth import TOLERANCE, drain, worst_error
from tests.agents.tiny import VOCABULARY, tiny_model
from tests.agents.work import TensorWork


def count_reads(model, monkeypatch):
    """Return a list that notes how many tokens each forward of the trunk reads."""
    counts = []
    forward = model.base_model.forward

    @functools.wraps(forward)
    def counting(*args, **kwargs):
        counts.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.base_model, "forward", counting)
    return counts


@pytest.fixture
def read(model, monkeypatch):
    return count_reads(model, monkeypatch)


def ids(count, seed=0):
    rng = random.Random(seed)
    return [rng.randrange(VOCABULARY) for _ in range(count)]


def play(engine, rows, turns, seed=0, most=6):
    """Play conversations side by side; return every request with its completion."""
    rng = random.Random(seed)
    prompts = [ids(rng.randint(20, 40), seed=100 + row) for row in range(rows)]
    played = []
    for turn in range(turns):
        requests = [
            Request(prompt, Sampling(max_tokens=rng.randint(1, most)), seed=1000 * turn + row)
            for row, prompt in enumerate(prompts)
        ]
        completions = engine.generate(requests)
        played += zip(requests, completions, strict=True)
        prompts = [
            [*prompt, *done.ids, *ids(rng.randint(3, 9), seed=turn * rows + row)]
            for row, (prompt, done) in enumerate(zip(prompts, completions, strict=True))
        ]
    return played


def test_conversations_are_exact_and_read_only_what_is_new(model, engine, read):
    read.clear()
    played = play(engine, rows=12, turns=5)
    first, total = read[0], sum(read)
    new = sum(len(done.ids) for _, done in played)
    assert total < 2.5 * first + 2 * new
    requests, completions = zip(*played, strict=True)
    assert worst_error(model, requests, completions) <= TOLERANCE
    plain = play(TransformersEngine(model, end_ids=[], prefix_cache=False), rows=12, turns=5)
    assert [done.ids for _, done in plain] == [done.ids for done in completions]


def test_equal_prompts_are_read_once(model, engine, read):
    read.clear()
    requests = [Request(ids(40), Sampling(max_tokens=3), seed) for seed in range(16)]
    completions = engine.generate(requests)
    assert read == [40, 16, 16]
    assert worst_error(model, requests, completions) <= TOLERANCE
    read.clear()
    again = engine.generate(requests)
    assert [done.ids for done in again] == [done.ids for done in completions]
    assert read == [1, 16, 16]


def test_a_common_prefix_is_read_once(model, engine, read):
    rules = ids(60)
    prompts = [[*rules, *ids(5, seed=at)] for at in range(20)]
    requests = [
        Request(prompt, Sampling(max_tokens=2), seed=at) for at, prompt in enumerate(prompts)
    ]
    read.clear()
    completions = engine.generate(requests)
    assert read == [60, 20 * 5, 20]
    assert worst_error(model, requests, completions) <= TOLERANCE
    read.clear()
    late = [Request([*rules, *ids(7, seed=99)], Sampling(max_tokens=2), seed=5)]
    completions = engine.generate(late)
    assert read == [7, 1]
    assert worst_error(model, late, completions) <= TOLERANCE
    read.clear()
    TransformersEngine(model, end_ids=[], prefix_cache=False).generate(requests)
    assert read[-2:] == [20 * 65, 20]


def test_long_prompts_are_read_in_pieces(model, engine, monkeypatch):
    monkeypatch.setattr(prefill, "GROUP_TOKENS", 64)
    monkeypatch.setattr(prefill, "MASK_ELEMENTS", 4000)
    requests = [
        Request(ids(count, seed=count), Sampling(max_tokens=4), seed=count)
        for count in (1, 3, 60, 61, 150, 151, 300)
    ]
    assert worst_error(model, requests, engine.generate(requests)) <= TOLERANCE
    longer = [
        Request([*request.prompt, *ids(70, seed=7)], Sampling(max_tokens=3), seed=9)
        for request in requests
    ]
    assert worst_error(model, longer, engine.generate(longer)) <= TOLERANCE


def test_training_empties_the_cache():
    model = tiny_model()
    engine = TransformersEngine(model, end_ids=[])
    request = Request(ids(40), Sampling(max_tokens=5), seed=1)
    before = engine.generate([request])[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.tensor([request.prompt])
    model(batch, labels=batch).loss.backward()
    optimizer.step()  # without a word to the engine
    after = engine.generate([request])
    assert worst_error(model, [request], after) <= TOLERANCE
    assert after[0].log_probs != before.log_probs


def test_training_in_the_middle_of_a_reply_is_an_error():
    model = tiny_model()
    engine = TransformersEngine(model, end_ids=[])
    engine.submit([Request([1, 2])])
    engine.poll(timeout=0)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.1)
    with pytest.raises(EngineError, match="weights"):
        engine.poll()
    engine.cancel()
    request = Request([1, 2], Sampling(max_tokens=4))
    assert worst_error(model, [request], engine.generate([request])) <= TOLERANCE


def test_nan_states_do_not_spread_through_the_cache():
    model = tiny_model()
    good = copied(model)
    engine = TransformersEngine(model, end_ids=[])
    engine.generate([Request(ids(60), Sampling(max_tokens=2))])
    with torch.no_grad():
        model.base_model.layers[0].self_attn.v_proj.weight.fill_(float("nan"))
    with pytest.raises(EngineError, match="not finite"):
        engine.generate([Request(ids(60))])
    engine.update_weights(good.items(), 1)
    requests = [Request(ids(n, seed=n), Sampling(max_tokens=3)) for n in (3, 9)]
    assert worst_error(model, requests, engine.generate(requests)) <= TOLERANCE


def test_the_cache_can_be_freed_between_batches(engine):
    request = Request(ids(40), Sampling(max_tokens=5), seed=1)
    before = engine.generate([request])
    engine.sleep()
    assert engine._decoder.cache.length == 0
    assert engine.generate([request])[0].ids == before[0].ids
    engine.submit([request])
    engine.poll(timeout=0)
    engine.sleep()
    assert engine._decoder.cache.length > 0, "a reply is running"


def test_random_requests_are_exact_in_a_small_cache(model):
    """Conversations of every kind come, go on, branch and end, in a cache that is too small."""
    rng = random.Random(3)
    engine = TransformersEngine(model, end_ids=[], max_rows=6)
    known = [ids(rng.randint(1, 60), seed=at) for at in range(4)]
    requests, done = {}, {}
    for key in range(60):
        base = rng.choice(known)
        prompt = [*base[: rng.randint(1, len(base))], *ids(rng.randint(0, 20), seed=key)]
        requests[key] = Request(prompt, Sampling(max_tokens=rng.randint(1, 9)), seed=key, key=key)
        engine.submit([requests[key]])
        if rng.random() < 0.05:
            for one in engine.cancel():
                del requests[one.key]
        for one in engine.poll(timeout=0):
            done[one.key] = one
            known.append([*requests[one.key].prompt, *one.ids])
    done.update((one.key, one) for one in drain(engine))
    assert done.keys() == requests.keys()
    keys = sorted(done)
    error = worst_error(model, [requests[key] for key in keys], [done[key] for key in keys])
    assert error <= TOLERANCE
    assert engine._decoder.pool.free == 6


# --- the pool by itself -------------------------------------------------------------------


def test_the_longest_common_prefix_is_found():
    pool = SlotPool(3, keep=True)
    for slot, content in enumerate([list(range(20)), list(range(50)), [9] * 40]):
        pool.take()
        pool.give(slot, content)
    assert pool.find([*range(45), 0, 0]) == (1, 45)
    assert pool.find(list(range(50))) == (1, 49)  # its last id must be read for the logits
    assert pool.find([*range(18), 99]) == (1, 18)
    assert pool.find([1, 2, 3]) is None
    pool.forget()
    assert pool.find(list(range(50))) is None
    assert pool.free == 3


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
        monkeypatch.setattr(prefill, "is_worth_it", lambda *_: False)
    engine = TransformersEngine(model, **settings)
    done = engine.generate(requests())
    return done, [states for layer in engine._decoder.cache._own for states in layer.states]


def packs(model, requests):
    prompts = [each.prompt for each in requests]
    return prefill.is_worth_it(model.base_model, sum(map(len, prompts)), len(prompts))


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_sampled_and_cached_is_that_of_padded_prompts(family, prefix_cache, monkeypatch):
    model = built(family)
    assert packs(model, requests())
    ours = sampled(model, monkeypatch, packed=True, prefix_cache=prefix_cache)
    theirs = sampled(model, monkeypatch, packed=False, prefix_cache=prefix_cache)
    assert [done.ids for done in ours[0]] == [done.ids for done in theirs[0]]
    for one, other in zip(ours[1], theirs[1], strict=True):
        for slot, length in enumerate(LENGTHS):  # beyond its own ids a padded row holds anything
            torch.testing.assert_close(
                one[slot, :length], other[slot, :length], atol=2e-6, rtol=1e-5
            )


def first_read(model, monkeypatch):
    """Return the ids of the first forward, and the numbers that sampling one token each makes."""
    engine = TransformersEngine(model, prefix_cache=False)
    counts = count_reads(model, monkeypatch)
    with TensorWork() as work:
        engine.generate([Request(each.prompt, Sampling(max_tokens=1)) for each in requests()])
    return counts, work.numbers


def test_packed_prompts_have_no_padding_and_a_cheap_last_layer(monkeypatch):
    counts, numbers = first_read(tiny_model(), monkeypatch)
    assert sum(counts) == sum(LENGTHS)
    monkeypatch.setattr(prefill, "is_worth_it", lambda *_: False)
    padded, all_numbers = first_read(tiny_model(), monkeypatch)
    assert sum(padded) > sum(LENGTHS)
    assert numbers < 0.7 * all_numbers


def test_other_architectures_are_read_with_padding(monkeypatch):
    model = tiny_model("gpt2")
    assert not packs(model, requests())
    counts, _ = first_read(model, monkeypatch)
    assert sum(counts) > sum(LENGTHS)


def test_the_prompt_of_a_running_reply_is_reused(model, engine, read):
    prompt = ids(50)
    engine.submit([Request(prompt, Sampling(max_tokens=20), seed=1, key="first")])
    engine.poll(timeout=0)
    read.clear()
    engine.submit([Request([*prompt, 3, 4], Sampling(max_tokens=4), seed=2, key="second")])
    done = drain(engine)
    assert read[0] == 2
    requests = {"first": Request(prompt), "second": Request([*prompt, 3, 4])}
    assert worst_error(model, [requests[one.key] for one in done], done) <= TOLERANCE


def test_a_traded_slot_keeps_its_ids():
    pool = SlotPool(4, keep=True)
    for _ in range(3):
        pool.take()
    pool.note(2, [7] * 30)
    pool.give(0, [8] * 30)
    pool.trade(0, 2)
    assert (pool.ids[0], pool.ids[2]) == ([7] * 30, [8] * 30)
    assert pool.free == 2
    assert pool.find([8] * 31) == (2, 30)
    assert [pool.take(), pool.take()] == [3, 2]


def test_slots_are_taken_low_first_and_old_ones_last():
    pool = SlotPool(3, keep=True)
    assert [pool.take(), pool.take()] == [0, 1]
    pool.give(1, [1] * 20)
    pool.give(0, [2] * 20)
    assert [pool.take(), pool.take(), pool.take()] == [2, 1, 0]
    assert pool.free == 0

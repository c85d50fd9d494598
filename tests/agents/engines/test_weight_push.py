"""Weights on their way to another process, and sums that tell whether they arrived."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym_agents.engines import weight_push as module
from llm_gym_agents.engines.weight_check import cast_and_sum
from llm_gym_agents.engines.weight_push import ALIGN, buckets, to_bytes, weight_sums, weights_in
from tests.agents.tiny import tiny_model


def named(*sizes, dtype=torch.float32):
    return [(f"w{at}", torch.zeros(size, dtype=dtype)) for at, size in enumerate(sizes)]


def test_a_bucket_is_taken_before_the_next_is_made():
    made = []

    def produce():
        for name, tensor in named(10, 10, 10):
            made.append(name)
            yield name, tensor

    first = next(buckets(produce(), ALIGN))
    assert [name for name, _ in first.named()] == ["w0"]
    assert made == ["w0", "w1"], "never the whole model at once"


def check_same(found, weights):
    assert [name for name, _ in found] == [name for name, _ in weights]
    for (_, ours), (_, theirs) in zip(found, weights, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.equal(theirs)


def weights():
    found = [(name, value.detach()) for name, value in tiny_model().named_parameters()]
    found += [("halves", torch.randn(7, dtype=torch.bfloat16)), ("none", torch.empty(0))]
    return [*found, ("turned", torch.arange(6.0).view(2, 3).T)]  # not contiguous


def test_a_bucket_survives_a_round_trip_through_bytes():
    given = weights()
    [bucket] = buckets(given)
    for found in (weights_in(bucket), weights_in(to_bytes(bucket))):
        check_same(found, given)


def test_a_buffer_is_reused_and_loses_nothing():
    given, found, memory = weights(), [], set()
    size = 2 * max(each.nbytes for _, each in given)
    for flat in buckets(iter(given), size):
        memory.add(flat.buffer.data_ptr())
        assert len(flat.buffer) <= size
        found += [(name, each.clone()) for name, each in flat.named()]
    assert len(memory) == 1
    check_same(found, given)


def _read_handle(handle, answers):
    answers.put({name: each.float().cpu().tolist() for name, each in weights_in(handle)})


@pytest.mark.gpu
def test_on_a_gpu_a_bucket_is_a_handle_that_another_process_can_open():
    weights = [
        ("odd", torch.randn(7, device="cuda")),  # the next one must be aligned all the same
        ("halves", torch.randn(3, 5, device="cuda", dtype=torch.bfloat16)),
        ("turned", torch.arange(6.0, device="cuda").view(2, 3).T),
    ]
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    [bucket] = buckets(weights)
    reader = context.Process(target=_read_handle, args=(to_bytes(bucket), answers))
    reader.start()
    found = answers.get(timeout=120)
    reader.join()
    assert found == {name: value.float().cpu().tolist() for name, value in weights}


DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def sum_of(tensor):
    return weight_sums([("w", tensor)])["w"]


def some(shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_smallest_change_of_a_weight_changes_both_sums(dtype):
    weight = some((8, 16), dtype)
    before = sum_of(weight)
    for at in (0, 63, 127):
        changed = weight.clone()
        changed.view(-1)[at] = torch.nextafter(
            changed.view(-1)[at], torch.tensor(torch.inf, dtype=dtype)
        )
        after = sum_of(changed)
        assert after.content != before.content
        assert after.order != before.order


def test_sums_notice_order_and_ignore_padding_views_and_pieces(monkeypatch):
    weight = some((13, 11))
    plain, turned = sum_of(weight), sum_of(weight.flip(0))
    assert (turned.content == plain.content, turned.order == plain.order) == (True, False)
    padded = sum_of(torch.cat([weight, torch.zeros(3, 11)]))
    assert (padded[:2], padded.size) == (plain[:2], 176), "rows of zeros at the end add nothing"
    assert sum_of(weight.t()) == sum_of(weight.t().contiguous())
    assert sum_of(torch.empty(0)) == (0, 0, 0)
    monkeypatch.setattr(module, "PIECE", 10)
    assert sum_of(weight) == plain


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(DTYPES))
def test_parts_add_up_to_the_whole(rows, dtype):
    parts = [some((n, 7), dtype, seed) for seed, n in enumerate(rows)]
    whole = sum_of(parts[0])
    for part in parts[1:]:
        whole = whole.followed_by(sum_of(part))
    assert whole == sum_of(torch.cat(parts))


def test_pending_sums_ignore_later_changes_and_opposite_changes_do_not_cancel():
    weight = some(8)
    sums = module.PendingSums()
    sums.add("w", weight)
    before = sum_of(weight)
    weight.zero_()
    assert sums.read()["w"] == before
    weight = torch.full((2, 64), 0.5)
    moved = weight.clone()
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    moved[0] = torch.nextafter(moved[0], up)
    moved[1] = torch.nextafter(moved[1], down)
    assert sum_of(moved).content != sum_of(weight).content


@pytest.mark.parametrize("most", [1, 40, 1 << 20])
def test_weights_summed_together_have_the_sums_of_each_alone(monkeypatch, most):
    shapes = [(5,), (0,), (7, 3), (100,), (3,), (33,)]
    weights = [(f"w{at}", some(shape, DTYPES[at // 3], at)) for at, shape in enumerate(shapes)]
    alone = weight_sums(weights)
    monkeypatch.setitem(module.TOGETHER, "cpu", most)
    assert weight_sums(weights) == alone
    sums = module.PendingSums()
    list(cast_and_sum(weights, lambda name: None, sums))
    for _, weight in weights:
        weight.zero_()
    assert sums.read() == alone, "a push that has ended saw the weights as they were"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_on_a_gpu_equal_those_of_the_cpu(dtype):
    weights = [(str(at), some((333, at), dtype)) for at in (257, 1, 12)]
    assert weight_sums([(name, weight.cuda()) for name, weight in weights]) == weight_sums(weights)

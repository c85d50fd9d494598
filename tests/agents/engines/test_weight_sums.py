"""Sums of weights: exact, additive, blind to padding, and nothing else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym_agents.engines import weight_sums as module
from llm_gym_agents.engines.weight_sums import weight_sums

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def sum_of(tensor):
    return weight_sums([("w", tensor)])["w"]


def some(shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_to_the_next_number_anywhere_changes_both(dtype):
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


def test_one_up_and_one_down_do_not_cancel():
    weight = torch.full((2, 64), 0.5)
    moved = weight.clone()
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    moved[0] = torch.nextafter(moved[0], up)
    moved[1] = torch.nextafter(moved[1], down)
    assert sum_of(moved).content != sum_of(weight).content


def test_another_order_changes_the_order_alone():
    weight = some((4, 8))
    turned = sum_of(weight.flip(0))
    assert turned.content == sum_of(weight).content
    assert turned.order != sum_of(weight).order


def test_rows_of_zeros_at_the_end_add_nothing():
    weight = some((5, 8))
    padded = sum_of(torch.cat([weight, torch.zeros(3, 8)]))
    assert padded[:2] == sum_of(weight)[:2]
    assert padded.size == 64


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(DTYPES))
def test_parts_add_up_to_the_whole(rows, dtype):
    parts = [some((n, 7), dtype, seed) for seed, n in enumerate(rows)]
    whole = sum_of(parts[0])
    for part in parts[1:]:
        whole = whole.followed_by(sum_of(part))
    assert whole == sum_of(torch.cat(parts))


def test_pieces_do_not_change_a_sum(monkeypatch):
    weight = some((13, 11))
    before = sum_of(weight)
    monkeypatch.setattr(module, "PIECE", 10)
    assert sum_of(weight) == before


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    together=st.integers(0, 30),
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=12, max_size=12),
)
def test_weights_that_are_summed_together_have_the_sums_of_each_alone(sizes, together, dtypes):
    weights = [
        (str(at), some(size, dtype, at))
        for at, (size, dtype) in enumerate(zip(sizes, dtypes, strict=False))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", 32)
        patch.setitem(module.TOGETHER, "cpu", -1)
        alone = weight_sums(weights)
        patch.setitem(module.TOGETHER, "cpu", together)
        assert weight_sums(weights) == alone


def test_small_weights_are_hashed_in_one_go(monkeypatch):
    calls = []
    hash_of = module._hash
    monkeypatch.setattr(module, "_hash", lambda bits_N: calls.append(1) or hash_of(bits_N))
    weight_sums([(str(at), some(8, seed=at)) for at in range(100)])
    assert len(calls) == 1


def test_what_is_done_to_a_weight_after_it_was_added_does_not_count():
    weight = some(8)
    sums = module.PendingSums()
    sums.add("w", weight)
    before = sum_of(weight)
    weight.zero_()
    assert sums.read()["w"] == before


def test_a_view_is_summed_as_what_it_shows():
    weight = some((6, 4))
    assert sum_of(weight.t()) == sum_of(weight.t().contiguous())
    assert sum_of(torch.empty(0)) == (0, 0, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gpu_finds_the_sums_of_the_cpu(dtype):
    weight = some((333, 257), dtype)
    assert sum_of(weight.cuda()) == sum_of(weight)

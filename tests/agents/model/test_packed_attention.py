"""Packed attention: what its kernels are given, and what autocast makes of it."""

import pytest
import torch

from llm_gym_agents.model import packed_attention as module
from llm_gym_agents.model.packed_attention import Packing, _varlen, packed, packed_attention
from tests.agents.tiny import tiny_model

LENGTHS = torch.tensor([3, 5, 2])


def read(lm, ids, lengths, dtype=None):
    packing = Packing.of(lengths)
    trunk = lm.base_model
    with packed(trunk.config, packing), torch.autocast("cpu", dtype, enabled=dtype is not None):
        return trunk(
            input_ids=ids[None], position_ids=packing.position_S[None], use_cache=False
        ).last_hidden_state[0]


@pytest.mark.parametrize(("window", "left", "right"), [(None, None, None), (4, 3, 0)])
def test_keys_and_values_go_to_the_variable_length_kernel_as_they_are(
    monkeypatch, window, left, right
):
    given = {}

    def kernel(query, key, value, *places, **settings):
        given.update(key=key, value=value, places=places, settings=settings)
        return query, None

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", kernel)
    query, key, value = torch.randn(10, 8, 4), torch.randn(10, 2, 4), torch.randn(10, 2, 4)
    assert _varlen(query, key, value, Packing.of(LENGTHS), 0.5, window) is query
    assert given["key"].equal(key)
    assert given["value"].equal(value), "no head is repeated"
    starts, also, longest, _, dropout, causal, _ = given["places"]
    assert starts.tolist() == also.tolist() == [0, 3, 8, 10]
    assert starts.dtype == torch.int32
    assert (longest, dropout, causal) == (5, 0.0, True)
    assert given["settings"] == {"scale": 0.5, "window_size_left": left, "window_size_right": right}


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16
def test_under_autocast_attention_computes_in_its_type(monkeypatch):
    seen = []

    def noting(module_, query, key, value, *args, **kwargs):
        found = packed_attention(module_, query, key, value, *args, **kwargs)
        seen.append(found[0].dtype)
        return found

    monkeypatch.setitem(module.AttentionInterface._global_mapping, module.NAME, noting)
    lm, ids = tiny_model(), torch.arange(10)
    narrow = read(lm, ids, LENGTHS, torch.bfloat16)
    assert set(seen) == {torch.bfloat16}
    wide = read(lm, ids, LENGTHS)
    assert seen[-1] == torch.float32
    assert 0 < (narrow - wide).abs().mean() < 0.05 * wide.abs().mean()

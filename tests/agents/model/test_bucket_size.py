"""Sizes of recorded passes: room for what they are of, nothing left empty, and not much more."""

import pytest
import torch

from llm_gym_agents.model.cuda_graphs import BucketSize


@pytest.mark.parametrize("seed", range(40))
def test_a_size_has_room_for_what_it_is_of_and_is_full(seed):
    dice = torch.Generator().manual_seed(seed)
    rows = int(torch.randint(1, 200, (), generator=dice))
    lengths = torch.randint(1, 4 ** (1 + seed % 6), (rows,), generator=dice)
    size = BucketSize.of(lengths)
    for given in (lengths, lengths[:0]):
        filled = size.fill(given)
        assert len(filled) == size.rows
        assert int(filled.sum()) == size.ids
        assert int(filled.max()) <= size.longest
        assert torch.equal(filled[: len(given)], given)
    assert size.ids <= max(int(lengths.sum()) + 127, 1.25 * int(lengths.sum()) + 1)

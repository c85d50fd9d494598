"""A batch cut into packs is the batch: nothing is lost, doubled or read at another place."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym_agents.rollouts.pack import Packer
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, assemble
from tests.agents.batch.made_rollouts import rollouts


@settings(max_examples=60, deadline=None)
@given(rollouts(), st.integers(0, 12), st.booleans(), st.randoms(use_true_random=False))
def test_packs_hold_every_token_and_every_place_to_bootstrap_from_once(
    rollout, room, whole, random
):
    data = assemble(rollout)
    packer = Packer(data)
    longest = packer.ids_E if whole else data.sequence_lengths_Q
    budget = int(longest.max()) + room
    order = list(range(len(data.lengths_E)))
    random.shuffle(order)
    packs = packer.within(order, budget, whole=whole)
    seen_T = torch.cat([pack.index_T for pack in packs])
    assert sorted(seen_T.tolist()) == list(range(data.tokens))
    closed = []
    for pack in packs:
        assert len(pack.ids_S) == int(pack.sequence_lengths_Q.sum()) <= budget
        assert pack.lengths_M.sum() == len(pack.index_T) == len(pack.token_T)
        assert torch.equal(pack.token_T, data.token_T[pack.index_T])
        assert torch.equal(pack.ids_S[pack.position_T + 1], pack.token_T)
        ends = pack.sequence_lengths_Q.cumsum(0) - 1
        for episode, at in zip(pack.episodes_M.tolist(), pack.bootstrap_M.tolist(), strict=True):
            if at == NO_POSITION:
                continue
            closed.append(episode)
            assert at in ends  # what would have been read next is the last of its sequence
            assert pack.ids_S[at] == data.ids_S[data.bootstrap_E[episode]]
    assert sorted(closed) == (data.bootstrap_E != NO_POSITION).nonzero().flatten().tolist()

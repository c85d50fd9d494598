"""Which way weights go, and a process group that takes them there."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from llm_gym_agents.distributed import routes
from llm_gym_agents.distributed.members import Member
from llm_gym_agents.distributed.parcels import opened, wrapped
from llm_gym_agents.distributed.weight_group import GroupBrokenError, Meeting, WeightGroup
from llm_gym_agents.engines.weight_push import Flat, flat_buckets
from tests.agents.tiny import tiny_model

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
PLACES = [("here", "A"), ("here", "A"), ("here", "B"), ("here", "B"), ("there", "A"), ("x", None)]


@pytest.fixture
def members(monkeypatch):
    """Actors at PLACES; the learner is on card A of this machine."""
    monkeypatch.setattr(routes, "card", lambda device: ("here", "A"))
    return [
        Member(index, facts=SimpleNamespace(node=node, gpu=gpu))
        for index, (node, gpu) in enumerate(PLACES)
    ]


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        (GPU, ([0, 1], [2, 4], [3, 5])),  # NCCL refuses a second one on card B
        (CPU, ([], [], [0, 1, 2, 3, 4, 5])),
    ],
)
def test_the_way_to_each_actor(members, device, wanted):
    found = routes.routes_of(members, device)
    assert tuple([member.index for member in way] for way in found) == wanted
    assert routes.backend_of(device) == ("nccl" if device is GPU else "gloo")


def test_a_buffer_is_filled_again_and_again_and_loses_nothing():
    weights = [(name, each.detach()) for name, each in tiny_model().named_parameters()]
    weights += [("halves", torch.randn(7, dtype=torch.bfloat16)), ("none", torch.empty(0))]
    weights.append(("turned", torch.arange(6.0).view(2, 3).T))
    size = 2 * max(each.nbytes for _, each in weights)
    found, memory = [], set()
    for flat in flat_buckets(iter(weights), size):
        memory.add(flat.buffer.data_ptr())
        assert len(flat.buffer) <= size
        found += [(name, each.clone()) for name, each in flat.named()]
    assert len(memory) == 1
    assert [name for name, _ in found] == [name for name, _ in weights]
    for (_, ours), (_, theirs) in zip(found, weights, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.equal(theirs)


def test_a_weight_that_is_larger_than_the_buffer_goes_by_itself():
    sizes = [64, 640, 64]
    flats = flat_buckets(((str(n), torch.ones(n)) for n in sizes), 512)
    assert [[spot.end - spot.begin for spot in flat.spots] for flat in flats] == [
        [256],
        [2560],
        [256],
    ]


def test_a_parcel_is_opened_to_the_same_bits_and_a_handle_stays_one():
    weights = [("turned", torch.arange(6.0).view(2, 3).T), ("halves", torch.ones(3).bfloat16())]
    for (name, found), (same, weight) in zip(opened(wrapped(weights)), weights, strict=True):
        assert name == same
        assert found.dtype == weight.dtype
        assert found.equal(weight)
    assert opened(b"a handle") == b"a handle"


def meet(rank, leaves):
    """Send two buckets to the other processes, one of which may leave in between."""
    opened = [None]
    if rank == 0:
        meeting, store = WeightGroup.open("localhost", 3, "gloo")
        opened = [tuple(meeting)]
    dist.broadcast_object_list(opened)
    group = WeightGroup(Meeting(*opened[0]), rank, store if rank == 0 else None)
    weights = {"a": torch.arange(3.0), "b": torch.tensor([True, False])}
    seen = []
    for at in range(2):
        sent = [None]
        if rank == 0:
            weights["a"] += at
            [flat] = flat_buckets(weights.items(), 1024)
            sent = [(flat.spots, len(flat.buffer))]
        dist.broadcast_object_list(sent)
        spots, size = sent[0]
        if at and rank == leaves:
            group.close()
            return seen
        try:
            if rank == 0:
                group.broadcast(flat.buffer)
            else:
                seen.append(
                    {name: w.tolist() for name, w in Flat(group.receive(size), spots).named()}
                )
        except GroupBrokenError:
            seen.append("broken")
    group.close()
    return seen


@pytest.mark.slow
def test_a_group_beside_the_one_that_learns(group):
    first, *others = group(3).run(meet, None)
    expected = [{"a": [at, 1.0 + at, 2.0 + at], "b": [True, False]} for at in (0, 1)]
    assert first == []
    assert others == [expected, expected]


@pytest.mark.slow
def test_a_group_that_lost_a_member_says_so(group):
    first, *_ = group(3).run(meet, 2)
    assert first == ["broken"]

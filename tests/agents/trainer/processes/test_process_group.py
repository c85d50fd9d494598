"""A learner over processes does what one process does, however the episodes are dealt."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym_agents.trainer.process_group import ProcessGroup, balance
from tests.agents.trainer.processes.learning import (
    CASES,
    alone,
    differences,
    stop_where_one_breaks,
    update_in_group,
)
from tests.matrix import some_of


def check_equal(found, case):
    # Adam divides by the size of a gradient: where that is nearly 0, its rounding moves a weight.
    wrong = {name: gap for name, gap in differences(found[0], alone(case)) if not gap <= 3e-5}
    assert wrong == {}
    for other in found[1:]:
        assert other["metrics"] == found[0]["metrics"]
        assert all(other["trained"][name].equal(x) for name, x in found[0]["trained"].items())


@pytest.mark.parametrize(("case", "mode"), some_of(CASES, ["ddp", "fsdp"]))
def test_two_processes_learn_what_one_learns(group, mode, case):
    check_equal(group(2).run(update_in_group, mode, case), case)


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
@pytest.mark.parametrize("case", CASES)
def test_any_split_of_episodes_over_processes_learns_the_same(group, mode, case, world):
    for split in range(3):
        check_equal(group(world).run(update_in_group, mode, case, split), case)


def _drift_and_equalize(rank, mode):
    ranks, made = ProcessGroup(mode, torch.device("cpu")), torch.nn.Linear(2, 1)
    with torch.no_grad():
        made.weight.fill_(rank)
    ranks.equalize(made)
    return made.weight.tolist()


def test_processes_that_trained_apart_go_on_with_the_same_weights(group):
    assert group(2).run(_drift_and_equalize, "ddp") == [[[0.0, 0.0]], [[0.0, 0.0]]]
    assert group(2).run(_drift_and_equalize, "fsdp")[1] == [[1.0, 1.0]], "a shard is no copy"


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_an_error_in_one_process_stops_all_before_any_weight_moves(group, mode):
    (first, moved, after), (second, _, _) = group(2).run(stop_where_one_breaks, mode)
    assert first == second
    assert "loss" in second
    assert moved == []
    assert after > 0


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 9))
def test_episodes_are_balanced_over_processes(costs, hands):
    found = balance(costs, hands)
    assert sorted(at for hand in found for at in hand) == list(range(len(costs)))
    loads = [sum(costs[at] for at in hand) for hand in found]
    assert max(loads) - min(loads) <= max(costs, default=0)

"""The simulation of a cluster gives what can be worked out by hand."""

import pytest

from benchmarks.simulate_scale import Costs, simulate

FREE = {"deal_s": 0.0, "take_s": 0.0, "latency_s": 0.0, "spread": 0.0}


def costs(**given):
    return Costs(**{"play_s": 1.0, "learn_s": 0.0, "broadcast_s": 0.0} | FREE | given)


@pytest.mark.parametrize("players", [1, 4, 32])
def test_free_messages_leave_the_players_busy_all_the_time(players):
    found = simulate(costs(), players=players, lots=players)
    assert found.lots_per_s == pytest.approx(players)
    assert found.busy["players"] == pytest.approx(1.0)
    assert found.bottleneck == "players"


def test_players_wait_for_learning_and_weights():
    found = simulate(costs(learn_s=2.0, broadcast_s=1.0), players=8, lots=8)
    assert found.lots_per_s == pytest.approx(8 / 4)
    assert found.busy["learner"] == pytest.approx(0.5)
    assert found.bottleneck == "learner"


def test_playing_ahead_hides_what_is_shorter():
    slow = costs(learn_s=1.0)
    waits = simulate(slow, players=8, lots=8, iterations=64)
    ahead = simulate(slow, players=8, lots=8, iterations=64, staleness=1)
    assert waits.lots_per_s == pytest.approx(4.0)
    assert ahead.lots_per_s == pytest.approx(8.0, rel=0.05)


def test_one_process_that_takes_everything_in_is_the_end_of_it():
    taking = costs(take_s=0.01)
    few, many = (simulate(taking, players=n, lots=n) for n in (10, 10_000))
    assert few.bottleneck == "players"
    assert many.bottleneck == "driver"
    assert many.lots_per_s == pytest.approx(100, rel=0.02)


def test_lots_of_different_length_leave_some_waiting_for_the_last():
    even = simulate(costs(), players=32, lots=32)
    uneven = simulate(costs(spread=0.5), players=32, lots=32)
    assert uneven.lots_per_s < 0.6 * even.lots_per_s
    assert uneven.busy["players"] < 0.6

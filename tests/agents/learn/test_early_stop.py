"""Early stop: by success, by its interval, and by evaluations without a gain."""

import pytest

from llm_gym.episodes import Trajectory
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.schedule import EarlyStop
from llm_gym_agents.rollouts.evaluation import Evaluation


def won(wins, episodes=100):
    """An evaluation with so many wins."""
    played = [
        Trajectory(states=["", ""], actions=[""], rewards=[1.0], infos=[{"success": at < wins}])
        for at in range(episodes)
    ]
    assert sum(each.success for each in played) == wins
    return Evaluation("some", played, 0, 0.0)


def ends_after(results, **settings):
    """Return how many evaluations it takes, or None if the run goes on."""
    config = ConfigStore()
    config.update({"environment": settings})
    stop = EarlyStop(config)
    for at, wins in enumerate(results, 1):
        stop.update(won(wins))
        if stop.is_enough:
            return at
        assert stop.update(None) == {}
        assert not stop.is_enough, "weights that were not evaluated end nothing"
    return None


def test_a_run_ends_at_the_success_that_is_asked_for():
    assert ends_after([10, 94, 95], stop_at_success=0.88) == 3
    assert ends_after([10, 94, 94]) is None


def test_when_it_must_be_sure_the_whole_interval_has_to_be_above():
    # 95 of 100 may be a player of 89 %; of 99 the lower end is 94.6 %.
    assert ends_after([95, 98, 99], stop_at_success=0.94) == 3
    assert ends_after([95, 98, 98], stop_at_success=0.94) is None


def test_a_run_ends_after_evaluations_without_a_gain():
    assert ends_after([50, 52, 49, 55], stop_after_no_gain=3) == 4
    assert ends_after([50, 52, 70, 71, 69, 66], stop_after_no_gain=3) == 6
    assert ends_after([50, 52, 49, 55], stop_after_no_gain=4) is None


def test_small_gains_add_up_to_one():
    """Each is inside the interval of the one before, and all of them together are not."""
    assert ends_after(range(20, 95, 4), stop_after_no_gain=4) is None


def test_metrics_have_the_interval():
    stop = EarlyStop(ConfigStore())
    row = stop.update(won(90))
    assert row["eval/success_low"] == pytest.approx(0.826, abs=1e-3)
    assert row["eval/success_high"] == pytest.approx(0.945, abs=1e-3)
    assert stop.update(won(91))["eval/without_gain"] == 1


def test_it_goes_on_from_its_state():
    config = ConfigStore()
    config.environment.stop_after_no_gain = 2
    one, other = EarlyStop(config), EarlyStop(config)
    one.update(won(50))
    one.update(won(51))
    other.load_state(one.state())
    assert not other.is_enough
    other.update(won(52))
    assert other.is_enough


def test_it_says_why_even_after_other_weights_were_loaded():
    config = ConfigStore()
    config.update({"environment": {"stop_at_success": 0.94}})
    stop = EarlyStop(config)
    stop.update(won(98))
    before = stop.state()
    assert stop.ended is None
    stop.update(won(99))
    said = "held-out success is 99.0%, surely at least the 94% of environment.stop_at_success"
    assert stop.why == stop.ended == said
    stop.load_state(before)
    assert stop.why is None
    assert stop.ended == said
    config.update({"environment": {"stop_at_success": None, "stop_after_no_gain": 2}})
    stop.update(won(41))
    stop.update(won(40))
    assert stop.ended == "2 evaluations in a row without a gain"


def test_what_only_reaches_the_end_of_the_interval_is_no_gain():
    stop = EarlyStop(ConfigStore())
    stop.update(won(100))  # its interval ends at 1, above which nothing is
    assert stop.now.high == 1.0
    assert stop.update(won(100))["eval/without_gain"] == 1.0

"""Lots: cut by id, joined in id order, and played to the same bits wherever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.lots import joined, lots_of
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Closing, Rollout, Turn, episode_id


def episode(id):
    made = Trajectory(seed=id)
    made.episode_id = id
    return made


def rollout(ids, unplayed=(), env_id="some/Env-v0"):
    return Rollout(
        episodes=[episode(id) for id in ids],
        turns=[[Turn(id, 0, [1], [2], [0.0], "stop", 0)] for id in ids],
        closings=[Closing([id], True) for id in ids],
        unplayed=[episode(id) for id in unplayed],
        failures=[f"episode {id}" for id in unplayed],
        env_id=env_id,
    )


@given(st.sets(st.integers(0, 1000)), st.integers(1, 20))
def test_every_task_is_in_one_lot_and_lots_are_full(ids, size):
    lots = lots_of([EpisodeTask(id, 0) for id in ids], size)
    assert [task.id for lot in lots for task in lot] == sorted(ids)
    assert all(len(lot) == size for lot in lots[:-1])


def test_lots_come_together_in_id_order_with_what_belongs_to_each():
    whole = joined([rollout([3, 5], [9]), rollout([1, 4], [2])])
    assert [episode_id(each) for each in whole.episodes] == [1, 3, 4, 5]
    assert [turns[0].episode for turns in whole.turns] == [1, 3, 4, 5]
    assert [closing.ids for closing in whole.closings] == [[1], [3], [4], [5]]
    assert [episode_id(each) for each in whole.unplayed] == [2, 9]
    assert sorted(whole.failures) == ["episode 2", "episode 9"]
    assert whole.env_id == "some/Env-v0"


@pytest.mark.parametrize("rollouts", [[], [rollout([])]])
def test_nothing_comes_together_as_nothing(rollouts):
    assert joined(rollouts).all_episodes == []

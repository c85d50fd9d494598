"""Lots: cut by id, join_rollouts in id order, and played to the same bits wherever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.tasks import EpisodeTask, split_tasks
from llm_gym_agents.rollouts.turns import BootstrapPrompt, Rollout, Turn, episode_id, join_rollouts


def episode(id):
    made = Trajectory(seed=id)
    made.episode_id = id
    return made


def rollout(ids, unplayed=(), env_id="some/Env-v0"):
    return Rollout(
        episodes=[episode(id) for id in ids],
        turns=[[Turn(id, 0, [1], [2], [0.0], "stop", 0)] for id in ids],
        bootstrap_prompts=[BootstrapPrompt([id], True) for id in ids],
        unplayed=[episode(id) for id in unplayed],
        failures=[f"episode {id}" for id in unplayed],
        env_id=env_id,
    )


@given(st.sets(st.integers(0, 1000)), st.integers(1, 20))
def test_every_task_is_in_one_lot_and_lots_are_full(ids, size):
    lots = split_tasks([EpisodeTask(id, 0) for id in ids], size)
    assert [task.id for lot in lots for task in lot] == sorted(ids)
    assert all(len(lot) == size for lot in lots[:-1])


def test_lots_come_together_in_id_order_with_what_belongs_to_each():
    whole = join_rollouts([rollout([3, 5], [9]), rollout([1, 4], [2])])
    assert [episode_id(each) for each in whole.episodes] == [1, 3, 4, 5]
    assert [turns[0].episode for turns in whole.turns] == [1, 3, 4, 5]
    assert [closing.ids for closing in whole.bootstrap_prompts] == [[1], [3], [4], [5]]
    assert [episode_id(each) for each in whole.unplayed] == [2, 9]
    assert sorted(whole.failures) == ["episode 2", "episode 9"]
    assert whole.env_id == "some/Env-v0"


@pytest.mark.parametrize("rollouts", [[], [rollout([])]])
def test_nothing_comes_together_as_nothing(rollouts):
    assert join_rollouts(rollouts).all_episodes == []

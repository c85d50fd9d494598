"""``Rollout``: shards, what is bootstrapped, and a batch in numbers that can be counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.tasks import EpisodeTask, split_tasks
from llm_gym_agents.rollouts.turns import BootstrapPrompt, Rollout, Turn, episode_id, join_rollouts
from tests.agents.scored import episode


def named(id):
    made = Trajectory(seed=id)
    made.episode_id = id
    return made


def rollout(ids, unplayed=(), env_id="some/Env-v0"):
    return Rollout(
        episodes=[named(id) for id in ids],
        turns=[[Turn(id, 0, [1], [2], [0.0], "stop", 0)] for id in ids],
        bootstrap_prompts=[BootstrapPrompt([id], True) for id in ids],
        unplayed=[named(id) for id in unplayed],
        failures=[f"episode {id}" for id in unplayed],
        env_id=env_id,
    )


@given(st.sets(st.integers(0, 1000)), st.integers(1, 20))
def test_every_task_is_in_one_shard_and_shards_are_full(ids, size):
    shards = split_tasks([EpisodeTask(id, 0) for id in ids], size)
    assert [task.id for shard in shards for task in shard] == sorted(ids)
    assert all(len(shard) == size for shard in shards[:-1])


def test_rollouts_are_joined_in_id_order_with_what_belongs_to_each():
    whole = join_rollouts([rollout([3, 5], [9]), rollout([1, 4], [2])])
    assert [episode_id(each) for each in whole.episodes] == [1, 3, 4, 5]
    assert [turns[0].episode for turns in whole.turns] == [1, 3, 4, 5]
    assert [prompt.ids for prompt in whole.bootstrap_prompts] == [[1], [3], [4], [5]]
    assert [episode_id(each) for each in whole.unplayed] == [2, 9]
    assert sorted(whole.failures) == ["episode 2", "episode 9"]
    assert whole.env_id == "some/Env-v0"


@pytest.mark.parametrize("rollouts", [[], [rollout([])]])
def test_joining_nothing_gives_nothing(rollouts):
    assert join_rollouts(rollouts).all_episodes == []


def test_only_episodes_cut_by_our_own_limit_are_not_bootstrapped():
    stops = [
        (StopReason.MAX_STEPS, 2),
        (StopReason.MAX_STEPS, 1),  # the environment's own limit, before ours
        (StopReason.TOKENS, 2),
    ]
    episodes = [episode([0.0] * turns) for _, turns in stops]
    for each, (stop, _) in zip(episodes, stops, strict=True):
        each.stop_reason = stop
    after = [BootstrapPrompt([at], False) for at in range(3)]
    whole = Rollout(episodes, [[]] * 3, after, [], [])
    assert whole.ending_after(2).bootstrap_prompts == [None, after[1], after[2]]
    assert whole.ending_after(None).bootstrap_prompts == after


def played(rewards, group, stop="won", infos=(), finishes=("stop", "stop")):
    """Return an episode with a turn for each reward, and those turns of two tokens."""
    made = episode(rewards, group=group, infos=list(infos))
    made.stop_reason, made.success = stop, stop == "won"
    turns = [
        Turn(0, at, [1], [2, 3], [0.0, 0.0], finish, 0)
        for at, finish in zip(range(len(rewards)), finishes, strict=False)
    ]
    return made, turns


def batch_of(*pairs, unplayed=()):
    episodes, turns = zip(*pairs, strict=True)
    return Rollout(list(episodes), list(turns), [None] * len(pairs), list(unplayed), [])


def test_every_figure_is_a_mean_over_episodes_replies_or_groups():
    usable, unusable = ({"valid_action": flag} for flag in (True, False))
    paid = {"valid_action": True, "reward_terms": {"bonus": 0.5}}
    row = episode_metrics(
        batch_of(
            played([1.0], 7, infos=[paid]),
            played([0.0, 1.0], 7, infos=[unusable, paid]),
            played([0.0, 0.0], 8, "context", [usable, usable], ("length", "stop")),
            played([4.0], 9, "lost"),
            unplayed=[episode()],
        )
    )
    assert row == {
        "episode/success": 0.5,
        "reward/mean": 1.5,
        "episode/turns": 1.5,
        "episode/tokens": 3.0,
        "episode/unplayed": 1.0,
        "episode/context_full": 0.25,
        "episode/truncated_replies": 1 / 6,
        "reward/std": 1.5,
        "episode/invalid": 0.2,
        "reward/bonus": 0.25,
    }


def test_what_an_environment_does_not_say_is_left_out():
    assert "episode/invalid" not in episode_metrics(batch_of(played([1.0], 1)))

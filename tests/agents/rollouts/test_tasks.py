"""Episodes are named before they are played, and what is evaluated is never trained on."""

from llm_gym_agents.rollouts.tasks import (
    Rollout,
    held_out_tasks,
    resample_tasks,
    resample_zero_variance_groups,
    training_tasks,
)
from llm_gym_agents.run.metrics import TRAIN_SUCCESS
from tests.agents.scored import episode


def trained(run, iterations=40, batch_size=64, group_size=4):
    tasks = [
        task
        for iteration in range(iterations)
        for task in training_tasks(
            run, iteration, batch_size=batch_size, group_size=group_size, options=None
        )
    ]
    return tasks + [task for attempt in (1, 2, 3) for task in resample_tasks(tasks, run, attempt)]


def test_no_two_episodes_share_an_id_groups_share_a_start_and_none_is_held_out():
    held_out = {task.seed for task in held_out_tasks(range(2000), None)}
    assert len(held_out) == 2000
    for run in (0, 1, 2, 7, 2**63):
        assert held_out.isdisjoint(task.seed for task in trained(run)), run
    tasks = trained(0)
    everything = [*tasks, *held_out_tasks(range(2000), None)]
    assert len({task.id for task in everything}) == len(everything)
    one, other = trained(0), trained(1)
    seeds = {}
    for task in one:
        assert seeds.setdefault(task.group, task.seed) == task.seed
    assert len(set(seeds.values())) == len(seeds)
    assert not {task.seed for task in one} & {task.seed for task in other}


# --- groups with equal rewards are resampled -------------------------------------------------


def tasks(groups=4, size=2, iteration=0):
    return training_tasks(
        0, iteration, batch_size=groups * size, group_size=size, options={"split": "train"}
    )


def played(named, reward):
    """Play ``named``, each for the ``reward`` of its task."""
    episodes = [
        episode([reward(task)], episode_id=task.id, group=task.group, seed=task.seed)
        for task in named
    ]
    for each, task in zip(episodes, named, strict=True):
        each.options = task.options
    numbers = [each.episode_id for each in episodes]
    return Rollout(episodes, [[number] for number in numbers], numbers, [], [])


def equal(rollout):
    """Return the groups with equal rewards."""
    scores = {}
    for each in rollout.episodes:
        scores.setdefault(each.group, set()).add(each.total_reward)
    return {group for group, seen in scores.items() if len(seen) == 1}


def first_of_group(task):
    return float(task.id % 2)


def replaced(reward, again, tries=3):
    calls = []

    def play(named):
        calls.append([task.id for task in named])
        return played(named, again)

    rollout, row = resample_zero_variance_groups(
        played(tasks(), reward), tasks(), play, equal, run=0, tries=tries
    )
    return rollout, row, calls


def test_a_batch_with_spread_is_left_alone_and_tries_are_bounded():
    rollout, row, calls = replaced(first_of_group, None)
    assert [each.episode_id for each in rollout.episodes] == list(range(8))
    assert (calls, row["group/replaced"], row["group/flat_at_first"]) == ([], 0.0, 0.0)
    rollout, row, calls = replaced(lambda task: 1.0, lambda task: 1.0, tries=3)
    assert [each.episode_id for each in rollout.episodes] == list(range(8))
    assert [len(call) for call in calls] == [8, 8, 8]
    assert len({id for call in calls for id in call}) == 24, "no episode is played twice"
    assert row["group/replaced"] == 0.0


def test_groups_without_spread_are_replaced_by_new_ones():
    flat = {0, 2}
    rollout, row, calls = replaced(
        lambda task: 0.0 if task.group in flat else first_of_group(task), first_of_group
    )
    assert not equal(rollout)
    assert len(rollout.episodes) == 8
    assert [each.episode_id for each in rollout.episodes[:4]] == [2, 3, 6, 7]
    new = resample_tasks([task for task in tasks() if task.group in flat], 0, 1)
    assert [each.episode_id for each in rollout.episodes[4:]] == [task.id for task in new]
    assert calls == [[task.id for task in new]]
    assert (row["group/replaced"], row["group/flat_at_first"]) == (2.0, 0.5)
    assert row["group/played_further"] == 4.0
    assert row[TRAIN_SUCCESS] == 0.0
    for each, turns, closing in zip(
        rollout.episodes, rollout.turns, rollout.bootstrap_prompts, strict=True
    ):
        assert [each.episode_id] == turns == [closing], "turns stay with their episode"


def test_only_groups_that_are_still_flat_are_resampled():
    def later(task):
        return first_of_group(task) if len(seen) > 1 or task.group % 2 else 0.0

    seen = []

    def play(named):
        seen.append(sorted({task.group % 4 for task in named}))
        return played(named, later)

    rollout, _ = resample_zero_variance_groups(
        played(tasks(), lambda task: 0.0), tasks(), play, equal, run=0, tries=5
    )
    assert seen == [[0, 1, 2, 3], [0, 2]]
    assert not equal(rollout)

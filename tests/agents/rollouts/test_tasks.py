"""Episodes are named before they are played, and what is evaluated is never trained on."""

from llm_gym.episodes import Trajectory
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.schedule import Schedule
from llm_gym_agents.rollouts.tasks import (
    greedy_tasks,
    held_out_tasks,
    resample_tasks,
    training_tasks,
)


def trained(run, iterations=40, batch_size=64, group_size=4):
    tasks = [
        task
        for iteration in range(iterations)
        for task in training_tasks(
            run, iteration, batch_size=batch_size, group_size=group_size, options=None
        )
    ]
    return tasks + [task for attempt in (1, 2, 3) for task in resample_tasks(tasks, run, attempt)]


def test_no_run_trains_on_a_seed_that_is_held_out():
    held_out = {task.seed for task in held_out_tasks(range(2000), None)}
    assert len(held_out) == 2000
    for run in (0, 1, 2, 7, 2**63):
        assert held_out.isdisjoint(task.seed for task in trained(run)), run


def test_what_a_run_is_reported_on_is_not_what_its_weights_were_chosen_by():
    schedule = Schedule(ConfigStore(), has_splits=False)
    seen = {task.seed for task in schedule.held_out_tasks()}
    reported = {task.seed for task in schedule.held_out_tasks(schedule.reported)}
    assert len(seen) == len(reported) == schedule.config.environment.eval_episodes
    assert seen.isdisjoint(reported)


def test_an_id_decides_what_is_sampled_so_no_two_episodes_share_one():
    tasks = trained(0)
    starts = [Trajectory(seed=task.seed) for task in tasks]
    everything = [*tasks, *greedy_tasks(starts), *held_out_tasks(range(2000), None)]
    assert len({task.id for task in everything}) == len(everything)


def test_a_group_is_one_start_and_groups_of_two_runs_are_others():
    one, other = trained(0), trained(1)
    seeds = {}
    for task in one:
        assert seeds.setdefault(task.group, task.seed) == task.seed
    assert len(set(seeds.values())) == len(seeds)
    assert not {task.seed for task in one} & {task.seed for task in other}

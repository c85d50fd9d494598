"""Environments on actors of their own: one that breaks is alone with it."""

import functools

import pytest

from llm_gym.core.outcome import StopReason
from llm_gym_agents.rollouts.tasks import training_tasks
from tests.agents.distributed.broken_envs import Broken
from tests.agents.distributed.echo_run import echo_trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_environments_live_on_actors_of_their_own(cluster, tmp_path):
    import ray

    (tmp_path / "marks").mkdir()
    env = functools.partial(Broken, str(tmp_path / "marks"), (1,), "dies")
    given = {"environment.env_id": None, "inference.lot_size": None, "environment.timeout": 60.0}
    trainer = echo_trainer(tmp_path / "run", given, env=env, num_actors=1, env_actors=2)
    tasks = training_tasks(0, 0, batch_size=4, group_size=1, options=None)

    first = trainer.sampler.play(tasks, 0)
    failed = [each.episode_id for each in first.episodes if each.stop_reason == StopReason.ERROR]
    assert failed == [1]
    assert "ended its worker process (exit code -9)" in first.failures[0]
    assert trainer.sampler.watch.restarts == 0  # the player has not noticed

    again = trainer.sampler.play(tasks, 0)
    assert again.failures == []
    assert [each.actions for each in again.episodes if each.episode_id != 1] == [
        each.actions for each in first.episodes if each.episode_id != 1
    ]

    for host in trainer.sampler.crew.env_hosts:  # as if their machine were gone
        ray.kill(host, no_restart=False)
    trainer.sampler.play(tasks, 0)  # may lose episodes, and says so
    healed = trainer.sampler.play(tasks, 0)
    assert healed.failures == []
    assert [each.actions for each in healed.episodes] == [each.actions for each in again.episodes]
    assert trainer.sampler.watch.restarts == 0
    trainer.cleanup()

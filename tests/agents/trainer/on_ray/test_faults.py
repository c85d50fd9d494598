"""Actors die, hang and are killed; every episode counts once, and the numbers are the same."""

import functools
import os
import signal

import pytest

from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.rollouts.tasks import training_tasks
from tests.agents.checks import record_calls
from tests.agents.trainer.on_ray.broken_envs import Broken
from tests.agents.trainer.processes.echo_run import comparable, echo_rows, echo_trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NOT_EVALUATED = {"environment.eval_interval": 0, "environment.env_id": None}


def broken(tmp_path, groups, how, **kwargs):
    (tmp_path / "marks").mkdir()
    return functools.partial(Broken, str(tmp_path / "marks"), groups, how, **kwargs)


def test_three_kills_change_no_number_and_lose_no_episode(cluster, tmp_path):
    never = functools.partial(Broken, str(tmp_path), (), "dies")
    alone = echo_rows(tmp_path / "alone", NOT_EVALUATED, env=never)
    env = broken(tmp_path, groups=(1, 14, 30), how="dies")  # one of each iteration
    trainer = echo_trainer(tmp_path / "run", NOT_EVALUATED, env=env, num_actors=2)
    calls = record_calls(trainer.sampler, "play")
    rows = trainer.fit()
    seen = [episode.episode_id for call in calls for episode in call.result.episodes]
    # A fourth, while it waits: it is noticed when weights come, and its place has them too.
    os.kill(trainer.sampler.pool.actors[0].info.pid, signal.SIGKILL)
    trainer.publisher.publish(9)
    tasks = training_tasks(0, 3, batch_size=8, group_size=1, options=None)
    turns = trainer.sampler.play(tasks, 9).turns
    trainer.cleanup()
    assert {turn.version for own in turns for turn in own} == {9}
    assert trainer.sampler.pool.restarts == 4
    assert [comparable(row) for row in rows] == alone
    assert seen == list(range(36))
    assert rows[-1]["ray/restarts"] == 3
    assert len(list((tmp_path / "marks").iterdir())) == 3


def test_an_environment_that_hangs_is_cut_at_its_deadline(cluster, tmp_path):
    env = broken(tmp_path, groups=(2,), how="hangs")
    trainer = echo_trainer(tmp_path / "run", NOT_EVALUATED, env=env, num_actors=1, timeout=20.0)
    tasks = training_tasks(0, 0, batch_size=8, group_size=1, options=None)
    assert len(trainer.sampler.play(tasks, 0).episodes) == 8
    assert trainer.sampler.pool.restarts == 1
    trainer.cleanup()


def test_an_actor_that_always_dies_ends_the_run_in_one_sentence(cluster, tmp_path):
    env = broken(tmp_path, groups=(2,), how="dies", always=True)
    given = {"num_actors": 1}
    trainer = echo_trainer(tmp_path / "run", NOT_EVALUATED, env=env, **given)
    with pytest.raises(EngineError, match="sampler 0") as caught:
        trainer.fit()
    trainer.cleanup()
    assert "the last words of the environment" in str(caught.value)


def test_a_bug_in_an_environment_is_raised_as_it_is_and_not_played_again(cluster, tmp_path):
    env = functools.partial(Broken, str(tmp_path), None, "dies")  # which cannot be iterated over
    with pytest.raises(TypeError, match="not iterable"):
        echo_trainer(tmp_path, NOT_EVALUATED, env=env, num_actors=1)

"""A small run on ``Echo`` that learns, played by actors if ``ray`` is set, or in process."""

import contextlib
from unittest import mock

import pytest

from llm_gym_agents.trainer.ray import sampler
from tests.agents.config.effect_run import make_trainer

ECHO_RUN = {
    "training.num_iters_per_epoch": 3,
    "training.batch_size": 12,
    "training.mini_batch_size": 6,
    "inference.isolated_batch_size": 4,
    "environment.eval_interval": 2,
    "environment.eval_episodes": 6,
}


def echo_trainer(folder, given=None, *, env=None, in_process=False, **ray):
    """Return a trainer; keywords are settings of ``ray``, which is used if there are any.

    ``in_process`` keeps the actors in this process.
    """
    settings = ECHO_RUN | {f"ray.{name}": value for name, value in ray.items()} | (given or {})
    if ray or in_process:
        settings["ray.use_ray"] = True
    with without_ray() if in_process else contextlib.nullcontext():
        trainer = make_trainer(settings, folder, env)
    trainer.on_warning = lambda sentence: None
    return trainer


def echo_rows(folder, given=None, *, env=None, **ray):
    """Train, and return the rows of numbers that do not depend on time or place."""
    trainer = echo_trainer(folder, given, env=env, **ray)
    try:
        return [comparable(row) for row in trainer.fit()]
    finally:
        trainer.cleanup()


def comparable(row):
    apart = ("time/", "ray/", "engine/")
    return {name: value for name, value in row.items() if not name.startswith(apart)}


def check_rows(ours, theirs):
    """Check that ``ours`` has the numbers of ``theirs``, but for last bits."""
    assert len(ours) == len(theirs)
    for row, expected in zip(ours, map(comparable, theirs), strict=True):
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-5)


class Done:
    """A call that was made: what it returned, or raised."""

    def __init__(self, call, args):
        self.value = self.error = None
        try:
            self.value = call(*args)
        except Exception as error:  # noqa: BLE001 - raised again in ``result``
            self.error = error


class InProcessCluster:
    """A cluster of one process; ``settings`` are those of ``RayCluster``, and have no effect."""

    def __init__(self, *settings):
        pass

    def start(self, make, argument):
        return make(argument)

    def put(self, value):
        return value

    def call(self, actor, method, *args):
        return Done(getattr(actor, method), args)

    def ready(self, calls, timeout):
        return list(calls)

    def result(self, call):
        if call.error is not None:
            raise call.error
        return call.value

    def kill(self, actor):
        actor.close()

    def log_tail(self, actor, pid):
        return ""

    def close(self):
        pass


def without_ray():
    """Within this block players on actors are built in this process."""
    return mock.patch.object(sampler, "RayCluster", InProcessCluster)

"""Weights in a process group with real actors, over gloo: the numbers stay, and so does a push."""

import os
import signal

import pytest

from llm_gym_agents.distributed import weights
from llm_gym_agents.distributed.routes import Routes
from llm_gym_agents.rollouts.tasks import training_tasks
from tests.agents.distributed.echo_run import comparable, echo_rows, echo_trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def in_a_group(monkeypatch):
    """Every actor gets its weights in a group, as if each had a card of its own."""
    monkeypatch.setattr(weights, "routes_of", lambda members, device: Routes([], [*members], []))


def count_parcels(trainer):
    """Return a list that gets an item for every bucket in the object store from now on."""
    cluster, seen = trainer.sampler.cluster, []
    put = cluster.put

    def counted(value):
        seen.append(value)
        return put(value)

    cluster.put = counted
    return seen


def test_weights_in_a_group_give_the_numbers_of_one_process(cluster, in_a_group, tmp_path):
    trainer = echo_trainer(tmp_path / "group", num_actors=2)
    parcels = count_parcels(trainer)
    rows = [comparable(row) for row in trainer.fit()]
    trainer.cleanup()
    assert rows == echo_rows(tmp_path / "alone")
    assert parcels == []  # nothing went through the object store
    assert trainer.sampler.crew.broadcast._group.made == 1


def kill_before(broadcast, bucket, pid):
    """Have a process killed when so many buckets were sent in a group."""
    carry, sent = broadcast._group.carry, []

    def deadly(*args):
        if len(sent) == bucket:
            os.kill(pid, signal.SIGKILL)
        sent.append(None)
        return carry(*args)

    broadcast._group.carry = deadly


def test_a_push_outlives_a_member_of_its_group(cluster, in_a_group, tmp_path):
    trainer = echo_trainer(tmp_path / "run", num_actors=3)
    broadcast = trainer.sampler.crew.broadcast
    broadcast._bytes = 2048  # so that there are buckets after the one that breaks the group
    parcels = count_parcels(trainer)
    kill_before(broadcast, 2, trainer.sampler.members[1].facts.pid)
    told = trainer.publisher.publish(1)
    assert trainer.sampler.watch.restarts == 1
    assert told["engine/weights_checked"] == len(list(trainer.learner.weights()))
    assert 0 < len(parcels) < broadcast.buckets  # only those that were left, from then on
    parcels.clear()
    trainer.publisher.publish(2)  # in a group again, with the one in its place
    assert parcels == []
    tasks = training_tasks(0, 0, batch_size=6, group_size=1, options=None)
    turns = trainer.sampler.play(tasks, 2).turns
    trainer.cleanup()
    assert {turn.version for own in turns for turn in own} == {2}

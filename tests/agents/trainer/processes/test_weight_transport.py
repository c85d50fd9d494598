"""Weights on their way to actors: by a handle on the learner's GPU, or through the store."""

import pytest
import torch

from llm_gym_agents.trainer.ray import actor_pool
from llm_gym_agents.trainer.ray.cluster import ActorLostError, ClusterLostError
from tests.agents.checks import same
from tests.agents.trainer.processes.echo_run import echo_trainer

HERE = ("here", "GPU-A")


@pytest.fixture
def trainer(cleaned, tmp_path, monkeypatch):
    """Three actors; the learner is on the GPU of the first two, as far as they know."""
    made = cleaned(echo_trainer(tmp_path, in_process=True, num_actors=3))
    monkeypatch.setattr(actor_pool, "BUCKET_BYTES", 2048)
    made.sampler.pool.transport._gpu = HERE
    for handle, gpu in zip(made.sampler.pool.actors, ("GPU-A", "GPU-A", "GPU-B"), strict=True):
        handle.info = handle.info._replace(node="here", gpu=gpu)
    with torch.no_grad():
        for weight in made.learner.lm.parameters():
            weight += 0.25
    return made


def count_calls(trainer):
    """Return what goes through the store from now on, and to whom handles go."""
    cluster, stored, handles = trainer.sampler.pool.cluster, [], []
    call = cluster.call

    def counted(actor, method, *args):
        if method == "take_weights" and isinstance(args[0], bytes):
            handles.append(actor)
        return call(actor, method, *args)

    cluster.put = lambda value: stored.append(value) or value
    cluster.call = counted
    return stored, handles


def check_weights(trainer, version):
    for handle in trainer.sampler.pool.actors:
        engine = handle.actor.sampler.engine
        assert engine.version == version
        assert same(engine.model.state_dict(), trainer.learner.lm.state_dict())


def test_actors_on_the_learners_gpu_get_handles_and_others_use_the_store(trainer):
    stored, handles = count_calls(trainer)
    assert trainer.publisher.publish(1)["engine/weights_checked"] > 0
    check_weights(trainer, 1)
    first, second, _ = (each.actor for each in trainer.sampler.pool.actors)
    buckets = trainer.sampler.pool.transport.buckets
    assert handles == [first, second] * buckets
    assert len(stored) == buckets > 2


def test_a_handle_that_cannot_be_opened_is_replaced_by_the_store(trainer):
    first = trainer.sampler.pool.actors[0].actor
    take = first.take_weights

    def closed(bucket):
        if isinstance(bucket, bytes):
            raise RuntimeError("CUDA error: invalid resource handle")
        take(bucket)

    first.take_weights = closed
    _, handles = count_calls(trainer)
    for version in (1, 2):
        trainer.publisher.publish(version)
        check_weights(trainer, version)
    assert len(handles) == 2  # tried once on both, and never again


def test_an_actor_lost_amid_a_push_is_replaced_and_has_the_weights(trainer):
    lost = trainer.sampler.pool.actors[1]
    before = lost.actor

    def die(bucket):
        raise ActorLostError("killed")

    before.take_weights = die
    trainer.publisher.publish(1)
    assert lost.actor is not before
    assert trainer.sampler.pool.restarts == 1
    check_weights(trainer, 1)


def test_a_lost_cluster_is_not_taken_for_a_handle_that_cannot_be_opened(trainer):
    def gone(bucket):
        raise ClusterLostError("the cluster is gone")

    trainer.sampler.pool.actors[0].actor.take_weights = gone
    with pytest.raises(ClusterLostError):
        trainer.publisher.publish(1)
    assert trainer.sampler.pool.transport._gpu == HERE

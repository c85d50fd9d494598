"""Players on actors for a learner over processes: one drives, and all learn from the same batch."""

import pytest
import torch

from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.model.weights import full_tensor
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.trainer.process_group import ProcessGroup
from llm_gym_agents.trainer.ray import actor_pool
from llm_gym_agents.trainer.ray.cluster import ActorLostError, ClusterLostError
from llm_gym_agents.trainer.ray.sampler import HEARTBEAT_S, MainRank
from tests.agents.tiny import tiny_model
from tests.agents.trainer.processes.echo_run import check_rows, comparable, echo_rows, echo_trainer

PLAYERS = {"in_process": True, "num_actors": 2}
SLOWLY = {"training.learning_rate": 1e-3}
"""So that last bits of a sum stay last bits: AdamW takes a step of this size for any gradient."""


def led(folder, mode, given=None, **ray):
    return echo_trainer(folder, SLOWLY | {"parallel.mode": mode} | (given or {}), **(PLAYERS | ray))


def alone(folder, given=None, **ray):
    return echo_rows(folder, SLOWLY | (given or {}), **ray)


def rows_of(rank, folder, mode, given, ray):
    """Train; return the rows of this process, and whether it is the one that drives players."""
    trainer = led(folder, mode, given, **ray)
    try:
        return [comparable(row) for row in trainer.fit()], trainer.sampler.actor_pool is not None
    finally:
        trainer.cleanup()


def check(found, expected):
    for rows, _ in found:
        check_rows(rows, expected)
    assert [drives for _, drives in found] == [True] + [False] * (len(found) - 1)
    assert expected[-1]["policy/kl"] != 0.0


@pytest.mark.slow
def test_adapters_reach_the_players_merged(group, tmp_path):
    given = {"model.lora_rank": 2}
    found = group(2).run(rows_of, tmp_path / "spread", "fsdp", given, {})
    check(found, alone(tmp_path / "alone", given))


@pytest.mark.slow
def test_playing_ahead_is_the_same_over_processes(group, tmp_path):
    ahead = {"staleness": 1}
    found = group(2).run(rows_of, tmp_path / "spread", "fsdp", {}, ahead)
    check(found, alone(tmp_path / "alone", **PLAYERS, **ahead))


def lose_one(rank, folder, mode):
    """Let an actor be lost while it plays; return the weights of the one in its place."""
    trainer = led(folder, mode)
    actor = None
    if rank == 0:
        [handle, _] = trainer.sampler.pool.actors
        actor = handle.actor
        actor.play = _lost
    rows = trainer.fit()
    found = None
    own = {name: full_tensor(each) for name, each in trainer.learner.lm.named_parameters()}
    if rank == 0:
        assert handle.actor is not actor
        engine = handle.actor.sampler.engine
        found = all(each.equal(own[name]) for name, each in engine.model.named_parameters())
    trainer.cleanup()
    return [comparable(row) for row in rows], found


def _lost(*args):
    raise ActorLostError("killed")


def test_an_actor_lost_amid_a_batch_gets_weights_that_all_processes_hold(group, tmp_path):
    (ours, has_weights), (theirs, _) = group(2).run(lose_one, tmp_path / "spread", "fsdp")
    assert ours == theirs
    assert has_weights
    check_rows(ours, alone(tmp_path / "alone"))


def fail_in(rank, folder, how):
    """Break something in the main process; return the error of each, and how many episodes play."""
    trainer = led(folder, "fsdp" if how == "weights" else "ddp")
    found = []

    def gone(value):
        raise ClusterLostError("the cluster is gone")

    if rank == 0:
        actor_pool.BUCKET_BYTES, cluster = 256, trainer.sampler.pool.cluster
        if how == "weights":
            cluster.put = gone
    publish, play = trainer.publisher.publish, trainer.sampler.play
    with pytest.raises(EngineError) as caught:
        publish(1) if how == "weights" else play([EpisodeTask(0, 0)], 7)
    found.append(str(caught.value))
    if rank == 0 and how == "weights":
        del cluster.put
    publish(1)
    found.append(len(play([EpisodeTask(0, 0)], 1).episodes))
    trainer.cleanup()
    return found


@pytest.mark.parametrize(
    ("how", "sentence"), [("weights", "the cluster is gone"), ("play", "version 7")]
)
def test_an_error_on_the_main_rank_is_raised_on_every_rank(group, tmp_path, how, sentence):
    first, second = group(2).run(fail_in, tmp_path, how)
    assert first == second
    assert sentence in first[0]
    assert first[1] == 1


def break_work(rank):
    """Let the work of the main process raise; return the result of its next work."""
    main = MainRank(ProcessGroup("ddp", torch.device("cpu")), tiny_model())
    with pytest.raises(KeyError if rank == 0 else EngineError, match="no such key"):
        main.run_on_main(lambda: {}["no such key"])
    return main.run_on_main(lambda: "well")


def wait_for_work(rank, beats):
    """Let the main process work for so many beats; return how many messages this one got."""
    ranks = ProcessGroup("ddp", torch.device("cpu"))
    main, messages, broadcast = MainRank(ranks, tiny_model()), [], ranks.broadcast
    ranks.broadcast = lambda value: messages.append(broadcast(value)) or messages[-1]

    def work():
        for _ in range(beats):
            main._last_beat -= 2 * HEARTBEAT_S  # as if it had taken that long
            main.heartbeat()
            main.heartbeat()  # too soon for another
        return "done"

    return main.run_on_main(work), len(messages)


def test_waiting_processes_get_heartbeats_and_errors(group):
    assert group(2).run(wait_for_work, 3) == [("done", 4), ("done", 4)]
    assert group(2).run(break_work) == ["well", "well"]

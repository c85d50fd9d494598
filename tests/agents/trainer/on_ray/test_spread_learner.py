"""Actors on a real cluster, for one learner or several: the numbers of one process."""

import os
import signal

import pytest

from tests.agents.trainer.processes.echo_run import check_rows, comparable
from tests.agents.trainer.processes.test_main_rank import alone, led
from tests.agents.trainer.processes.test_runs import rows, torchrun

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def rows_of(rank, folder, mode, address):
    """Train with an actor killed on the way; return rows, and how many actors were replaced."""
    trainer = led(folder, mode, in_process=False, num_actors=2, address=address)

    def kill(trainer, row):
        if rank == 0 and trainer.iteration == 1:
            os.kill(trainer.sampler.pool.actors[1].info.pid, signal.SIGKILL)

    trainer.callbacks.append(kill)
    try:
        rows = trainer.fit()
        return [comparable(row) for row in rows], rows[-1]["ray/restarts"]
    finally:
        trainer.cleanup()


@pytest.mark.parametrize("mode", ["fsdp", "ddp"])
def test_players_on_a_cluster_for_a_learner_over_processes(cluster, group, tmp_path, mode):
    import ray

    address = ray.get_runtime_context().gcs_address
    (first, restarts), (second, restarts_there) = group(2).run(
        rows_of, tmp_path / "led", mode, address
    )
    check_rows(first, alone(tmp_path / "alone"))
    assert first == second
    assert restarts == restarts_there == 1


PLAYERS = ("--ray.use-ray", "--ray.num-actors", "2")


def test_players_and_learners_begin_again_from_the_checkpoint(tmp_path):
    done = torchrun(tmp_path / "again", restarts=1, flags=PLAYERS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / "killed").exists()
    found = rows(tmp_path / "again")
    assert [row["iteration"] for row in found] == [1, 2, 3, 4]
    assert all(row["ray/actors"] == 2 and row["ray/restarts"] == 0 for row in found)
    alone = torchrun(tmp_path / "alone", restarts=0, rank=9)
    assert alone.returncode == 0, alone.stderr
    check_rows(found, rows(tmp_path / "alone"))

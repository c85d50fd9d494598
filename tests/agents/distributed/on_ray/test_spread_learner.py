"""Two processes learn, two Ray actors play: the numbers of one process that does both."""

import os
import signal

import pytest

from tests.agents.distributed.echo_run import comparable
from tests.agents.distributed.test_main_rank import alone, check_rows, led

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
    (first, restarts), (second, told) = group(2).run(rows_of, tmp_path / "led", mode, address)
    check_rows(first, alone(tmp_path / "alone"))
    assert first == second
    assert restarts == told == 1

"""A cluster that is lost ends a run with a sentence, and the run goes on from its checkpoint."""

import subprocess
import sys

import pytest

from tests.agents.trainer.processes.echo_run import comparable, echo_rows, echo_trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
FOUR = {
    "training.num_epochs": 2,
    "training.num_iters_per_epoch": 2,
    "environment.eval_interval": 0,
    "checkpoint.save_interval": 1,
}
LOSES_ITS_CLUSTER = """
import os, signal, sys
from pathlib import Path
import ray
from tests.agents.trainer.processes.echo_run import echo_trainer
from tests.agents.trainer.on_ray.test_head import FOUR

def lose(trainer, row):
    if trainer.iteration == 3:
        raylet = ray._private.worker.global_worker.node.all_processes["raylet"][0].process
        os.kill(raylet.pid, signal.SIGKILL)

trainer = echo_trainer(Path(sys.argv[1]), FOUR, num_actors=1)
trainer.callbacks.append(lose)
trainer.fit()
"""


def test_a_run_that_lost_its_cluster_names_the_resume_command_and_resumes(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOSES_ITS_CLUSTER, str(tmp_path / "run")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "raylet" in done.stderr
    assert "llm-gym resume" in done.stderr

    trainer = echo_trainer(tmp_path / "run", FOUR | {"checkpoint.resume": True}, in_process=True)
    rows = [comparable(row) for row in trainer.fit()]
    trainer.cleanup()
    assert rows == echo_rows(tmp_path / "alone", FOUR)

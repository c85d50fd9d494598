"""A process of the learner is killed: the others say so and end, and a restart goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_gym_agents.run.metrics import read_metrics
from tests.agents.distributed import dying

ROOT = Path(__file__).parents[3]
LOST = "is gone, and nothing of this iteration was kept"


def torchrun(folder, *, restarts, mode="fsdp", rank=1, iteration=3, flags=()):
    path = os.pathsep.join([f"{ROOT}/agents", str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", dying.__file__, str(folder), mode]
    return subprocess.run(
        [*command, str(rank), str(iteration), *flags],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,  # a busy machine
    )


def rows(folder):
    timed = ("time/", "rate/")
    return [
        {name: row[name] for name in row if not name.startswith(timed) and "per_s" not in name}
        for row in read_metrics(folder / "run")
    ]


@pytest.mark.slow
def test_a_killed_process_ends_the_group_in_a_sentence_and_a_restart_goes_on(tmp_path):
    whole = torchrun(tmp_path / "whole", restarts=0, rank=9)
    assert whole.returncode == 0, whole.stderr
    ended = torchrun(tmp_path / "ended", restarts=0)
    assert ended.returncode != 0
    assert LOST in ended.stderr + ended.stdout
    assert [row["iteration"] for row in rows(tmp_path / "ended")] == [1, 2]
    again = torchrun(tmp_path / "again", restarts=1)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "killed").exists()
    expected = rows(tmp_path / "whole")
    assert len(expected) == 4
    for ours, theirs in zip(rows(tmp_path / "again"), expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)

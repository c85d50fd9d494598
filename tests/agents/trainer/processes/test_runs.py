"""Whole runs over processes: the numbers of one process, and checkpoints for any number of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from llm_gym_agents.run.checkpoints import Checkpoints, load_checkpoint
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.small_run import small, trained, untimed
from tests.agents.trainer.processes import dying
from tests.agents.trainer.processes.echo_run import check_rows

ENV = "llm_gym/Echo-v0"
KINDS = {
    "separate critic": {"model": {"critic": "separate"}, "training": {"kl": "loss"}},
    "adapters": {"model": {"lora_rank": 2}},
}


def config(folder, kind, mode, iterations):
    made = small(folder, **KINDS[kind])
    made.update(
        {
            "training": {
                "num_iters_per_epoch": iterations,
                "learning_rate": 1e-3,
                "batch_size": 6,
                "mini_batch_size": 3,
                "lr_schedule": "constant",
            },
            "environment": {"eval_interval": 1},
            "checkpoint": {"resume": True},
            "parallel": {"mode": mode},
        }
    )
    return made


def score(trajectory):
    return 0.1 * len(trajectory.actions[-1])


def fit(rank, folder, kind, mode, iterations):
    """Train to ``iterations`` in all; return what this process remembers of it."""
    return trained(config(folder, kind, mode, iterations), ENV, score).metrics_history


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_in_any_number_of_processes_to_the_same_numbers(group, tmp_path, kind):
    straight = fit(0, tmp_path / "straight", kind, "none", 5)
    folder = tmp_path / "moving"
    for world, mode, iterations in ((2, "fsdp", 2), (3, "fsdp", 3), (2, "ddp", 4)):
        first, *others = group(world).run(fit, folder, kind, mode, iterations)
        check_rows(first, straight[:iterations])
        assert all(len(other) == iterations for other in others)
    check_rows(fit(0, folder, kind, "none", 5), straight)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_shards_is_whole_and_holds_a_plain_model(group, tmp_path, kind):
    group(2).run(fit, tmp_path / "sharded", kind, "fsdp", 2)
    fit(0, tmp_path / "plain", kind, "none", 2)
    places = {
        name: Checkpoints(tmp_path / name / "checkpoints").latest() for name in ("sharded", "plain")
    }
    assert sorted(path.name for path in (places["sharded"] / "trainer").iterdir()) == [
        f"shard-0000{rank}-model-00001-of-00001.safetensors" for rank in (1, 2)
    ]
    ours, theirs = (load_checkpoint(places[name]) for name in ("sharded", "plain"))
    for name, part in theirs.parts.items():
        assert ours.parts[name].tensors.keys() == part.tensors.keys()
        for key, tensor in part.tensors.items() if name != "rng" else ():
            assert torch.allclose(ours.parts[name].tensors[key], tensor, atol=1e-5), (name, key)
    models = [AutoModelForCausalLM.from_pretrained(places[n] / "model") for n in places]
    for (name, one), (_, other) in zip(*(m.named_parameters() for m in models), strict=True):
        assert torch.allclose(one, other, atol=1e-4), name  # a tenth of one step of AdamW
    files = [load_file(places[n] / "model" / "model.safetensors").keys() for n in places]
    assert files[0] == files[1]


ROOT = Path(__file__).parents[4]
LOST = "has lost another process of its group"


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
    return untimed(read_metrics(folder / "run"))


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
    check_rows(rows(tmp_path / "again"), expected)

"""The example files are what a cluster reads, and the trainer takes their commands."""

import re
import shlex
import subprocess
from pathlib import Path

import yaml

from llm_gym_agents.config import ConfigStore, parse_args

EXAMPLES = Path(__file__).parents[3] / "docs/examples"


def config_of(command):
    """Return the config that the settings of an ``llm-gym train`` command give."""
    words = shlex.split(re.sub(r"\$\(\(.*?\)\)+", "4", command.replace("\\\n", " ")))
    at = words.index("train")
    short = {"--model": "--model.model-name", "--out": "--checkpoint.output-dir"}
    config = parse_args([short.get(word, word) for word in words[at + 2 :]], ConfigStore())
    config.environment.env_id = words[at + 1]
    config.check()
    return config


def test_the_kuberay_job_has_a_head_workers_and_a_command_that_runs():
    job = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    [players] = cluster["workerGroupSpecs"]
    config = config_of(job["spec"]["entrypoint"])
    assert config.ray.num_actors == players["replicas"]
    assert config.ray.address == "auto"
    [container] = players["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_slurm_script_is_a_script_and_its_command_runs():
    script = EXAMPLES / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text()
    config = config_of(text[text.index("    torchrun") :])
    assert config.ray.use_ray
    assert config.parallel.mode == "fsdp"
    assert config.checkpoint.resume

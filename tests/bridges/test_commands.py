"""The real commands on bridges and on a served environment, as somebody would type them."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from llm_gym.registry.suite import BRIDGES, installed

pytest.importorskip("torchrl")

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMAND = [sys.executable, "-m", "llm_gym"]
INSTALLED = {row.id for row in BRIDGES if installed(row)}
PLAYED = {
    "llm_gym/TextArena-v0": "env_id=GuessTheNumber-v0",
    "llm_gym/ReasoningGym-v0": "env_id=chain_sum",
}
TINY = [
    *("--training.num-epochs", "1", "--training.num-iters-per-epoch", "2"),
    *("--training.batch-size", "4", "--training.mini-batch-size", "4"),
    *("--training.ppo-epochs", "1", "--inference.num-envs", "4", "--inference.max-tokens", "3"),
    *("--inference.max-turns", "2", "--warm-start.steps", "2", "--warm-start.turns", "20"),
    *("--environment.eval-episodes", "2"),
]
VARIABLES = {
    **os.environ, "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "agents")]),
}  # fmt: skip


def run(*arguments, status=0, **variables):
    """Run ``llm-gym``; return what it prints."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300,
        env={**VARIABLES, **variables}, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr[-3000:]
    return done.stdout if status == 0 else done.stderr


def refused(*arguments, **variables):
    """Run a command that fails; return its error, one line."""
    output = run(*arguments, status=2, **variables)
    assert output.startswith("llm-gym: "), output
    assert output.count("\n") == 1, output
    return output.removeprefix("llm-gym: ").strip()


def trained(folder, env_id, setting):
    """Train two iterations; return the metrics of each."""
    output = run(
        "train", env_id, "--environment.env-kwargs", *setting, *TINY,
        "--checkpoint.output-dir", folder,
    )  # fmt: skip
    assert "iteration 2/2" in output
    assert f"before: {env_id}: success" in output
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return output, [json.loads(line) for line in lines]


def evaluated(*arguments):
    """Let a model play two episodes; return the printed result."""
    (result,) = json.loads(run(*arguments, "--episodes", "2", "--json"))
    return result


def test_bridges_are_played_trained_on_and_evaluated(tmp_path):
    here = [env_id for env_id in PLAYED if env_id in INSTALLED]
    if not here:
        pytest.skip("none of their suites is installed")
    for env_id in here:
        output = run("play", env_id, "--set", PLAYED[env_id], "--player", "random", "--seed", "1")
        assert re.search(r"\[\w+ after \d+ turns?, return ", output)
    output, metrics = trained(tmp_path / "run", here[0], [PLAYED[here[0]]])
    assert [row["iteration"] for row in metrics] == [1, 2]
    for row in metrics:
        sys.stdout.write(f"loss {row['loss/policy']:g}, reward {row['reward/mean']:g}\n")
        assert row["episode/failed"] == 0
    (line,) = re.findall(r"^  llm-gym (eval .*)$", output, re.M)
    result = evaluated(*shlex.split(line))  # as it was advised
    assert (result["env"], result["episodes"]) == (here[0], 2)
    for env_id in here[1:]:
        model = ("--model", tmp_path / "run/final")
        result = evaluated("eval", env_id, *model, "--set", PLAYED[env_id])
        assert (result["env"], result["episodes"]) == (env_id, 2)


@contextmanager
def serving(*arguments, **variables):
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**VARIABLES, **variables},
    )  # fmt: skip
    try:
        yield re.search(r"http\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.mark.slow  # outside of make test-bridges, which runs it as well
def test_a_served_environment_is_played_trained_on_and_evaluated(tmp_path):
    served = ["llm_gym/GuessTheNumber-v0", "--set", "high=5", "--port", "0"]
    with serving(*served, "--players", "random", "solver") as url:
        setting = f"url={url}"
        remote = "llm_gym/Remote-v0"
        output = run("play", remote, "--set", setting, "--player", "solver", "--seed", "1")
        assert "[won after" in output
        output, metrics = trained(tmp_path / "run", remote, [setting])
        assert [row["iteration"] for row in metrics] == [1, 2]
        result = evaluated("eval", remote, "--model", tmp_path / "run/final", "--set", setting)
        assert (result["env"], result["episodes"]) == (remote, 2)
        port = url.rpartition(":")[2]
        output = refused("serve", "llm_gym/Echo-v0", "--port", port)
        assert output == (
            f"cannot listen on 127.0.0.1 port {port}: something else listens there; --port 0 "
            "takes a free one"
        )
    output = refused("play", remote, "--set", setting, "--set", "tries=1")
    assert output.startswith("no server answers (")
    assert output.endswith(f"does llm-gym serve run at {url}?")


def test_a_wrong_token_is_one_sentence_with_the_remedy():
    mine, right = "one-token-of-sixteen-signs", "another-token-of-sixteen"
    with serving("llm_gym/Echo-v0", "--port", "0", LLM_GYM_SERVE_TOKEN=right) as url:
        for variables in ({}, {"LLM_GYM_SERVE_TOKEN": mine}):
            output = refused("play", "llm_gym/Remote-v0", "--set", f"url={url}", **variables)
            assert output == (
                f"{url} wants its token: put what it was started with into LLM_GYM_SERVE_TOKEN"
            )


def test_wrong_settings_of_bridges_are_one_sentence():
    if "llm_gym/TextArena-v0" in INSTALLED:
        output = refused("play", "llm_gym/TextArena-v0", "--set", "env_id=TicTacTo-v0")
        assert "such as TicTacToe-v0" in output
        for command in ("play", "serve"):
            output = refused(command, "llm_gym/TextArena-v0", "--set", "game=TicTacToe-v0")
            assert "it has no setting 'game'; it has" in output
        output = refused("train", "llm_gym/TextArena-v0", "--environment.env-kwargs", "game=x")
        assert "it has no setting 'game'" in output
    if "llm_gym/Jericho-v0" in INSTALLED:
        output = refused("play", "llm_gym/Jericho-v0")
        assert output == "games must name files for the Z-machine, got nothing"
    if "llm_gym/OpenEnv-v0" in INSTALLED:
        output = refused("play", "llm_gym/OpenEnv-v0", "--set", "url=http://127.0.0.1:9")
        assert output.startswith("no episode from http://127.0.0.1:9")
    assert "there is no environment" in refused("play", "llm_gym/TextArena-v9")

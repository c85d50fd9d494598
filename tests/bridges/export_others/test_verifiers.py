"""verifiers' own commands validate and evaluate a package of ours.

prime-rl loads the same package by its name; it wants GPUs, so it does not run here.
"""

import json
import os
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids

pytest.importorskip("verifiers.v1", reason="needs verifiers 0.4: make test-exports")
from verifiers.v1.cli.eval.main import main as vf_eval
from verifiers.v1.cli.validate import main as vf_validate

from llm_gym_agents.export.packages import write_verifiers

GUESS, HIGH, NAME = "llm_gym/GuessTheNumber-v0", 3, "guess-the-number"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package, where Python finds it, and the folder that its results go to."""
    monkeypatch.syspath_prepend(str(write_verifiers(tmp_path, GUESS, high=HIGH)))
    monkeypatch.setattr(sys, "argv", ["vf"])
    for module in [name for name in sys.modules if name.startswith("guess_the_number")]:
        monkeypatch.delitem(sys.modules, module)
    return tmp_path / "out"


def rows(folder, name):
    (path,) = folder.rglob(name)
    return [json.loads(line) for line in path.read_text().splitlines()]


def counting_up(seed):
    """What the guesses 1, 2, 3 earn in the environment itself, and how many are needed."""
    env = gym.make(GUESS, high=HIGH)
    env.reset(seed=seed)
    for guess in range(1, HIGH + 1):
        _, reward, terminated, truncated, _ = env.step(str(guess))
        if terminated or truncated:
            return reward, guess
    raise AssertionError("one of the numbers is the number")


def test_vf_validate_has_the_solver_win_every_task(package):
    arguments = ["-n", "3", "--runtime.type", "subprocess", "--no-rich", "-o", str(package)]
    vf_validate([NAME, *arguments])
    results = rows(package, "results.jsonl")
    assert [row["valid"] for row in results] == [True] * 3
    assert [row["noop"]["reward"] for row in results] == [0.0] * 3


def test_vf_eval_plays_the_local_episodes(package, chat_server, monkeypatch):
    # verifiers runs its chat program with uv, which is installed beside it.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    chat_server.model = lambda messages: str(1 + sum(m["role"] == "assistant" for m in messages))
    endpoint = ["--client.base-url", chat_server.url, "--client.api-key-var", "NO_KEY"]
    arguments = ["-n", "3", "-m", "small", "--no-rich", "--no-push", "-o", str(package)]
    vf_eval([NAME, *arguments, *endpoint])
    episodes = {row["task"]["data"]["seed"]: row["traces"] for row in rows(package, "traces.jsonl")}
    assert sorted(episodes) == [0, 1, 2]
    for seed, (trace,) in episodes.items():
        reward, turns = counting_up(seed)
        assert trace["rewards"]["game_reward"]["score"] == reward
        assert trace["metrics"]["success"] == 1.0
        replies = [node["message"] for node in trace["nodes"] if node.get("sampled")]
        assert [one["content"] for one in replies] == [str(at + 1) for at in range(turns)]

"""What scripts make of their runs: settings, order, comparisons, the leaderboard."""

import argparse
import ast
import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.envs import leaderboard
from benchmarks.learn import demo, learning, learning_run
from benchmarks.lib.lanes import Results
from benchmarks.peers import trl_gpu, trl_train
from benchmarks.scale import ray_gpu
from llm_gym.episodes import Trajectory, write_episodes
from llm_gym.evaluate.scores import published
from llm_gym_agents.algo import TokenStream, get_advantage
from tests.robustness import chaos

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = [path for path in sorted(FOLDER.rglob("*.py")) if "__main__" in path.read_text()]
PEERS = {"ray", "playwright", "vllm", "sglang", "verl", "textarena", "gem", "openenv"}
WORKERS = ("worker.py", "tool_worker.py", "parsers.py", "trl_side.py", "openenv_server.py")
"""Run where a peer is installed."""
ECHO, COUNT = "llm_gym/Echo-v0", "llm_gym/Count-v0"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_asked_for_help_without_a_peer(path):
    if path.name in WORKERS:
        return
    tree = ast.parse(path.read_text())
    assert "parse_args(" in path.read_text(), "it would measure when asked for --help"
    names = {
        name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert not names & PEERS
    others = names - set(sys.stdlib_module_names)
    assert [name for name in sorted(others) if importlib.util.find_spec(name) is None] == []


def test_every_evaluation_of_the_demo_has_its_second(tmp_path):
    def write(name, won, after_s):
        episodes = [
            Trajectory(states=["a", "b"], actions=["x"], infos=[{"success": at < won}])
            for at in range(5)
        ]
        path = tmp_path / "episodes" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_episodes(path, episodes)
        os.utime(path, (1e6 + after_s, 1e6 + after_s))

    for name, won, after_s in (("eval-000010", 4, 40.25), ("eval-000005", 2, 25), ("before", 0, 9)):
        write(name, won, after_s)
    assert demo.held_out(tmp_path, 1e6) == [(0, 9.0, 0.0), (5, 25.0, 0.4), (10, 40.2, 0.8)]


def test_the_control_has_the_advantages_of_gae_on_other_tokens():
    torch.manual_seed(0)
    given = TokenStream(
        reward_T=torch.randn(12),
        value_T=torch.randn(12),
        lengths_E=torch.tensor([3, 4, 5]),
        terminated_E=torch.ones(3, dtype=torch.bool),
        bootstrap_E=torch.zeros(3),
    )
    real = get_advantage("gae")(given, gamma=0.9, lam=0.9, discount="turn")
    control = get_advantage("shuffled")(given, gamma=0.9, lam=0.9)
    assert torch.equal(control.advantages_T.sort()[0], real.advantages_T.sort()[0])
    assert not torch.equal(control.advantages_T, real.advantages_T)
    assert torch.equal(control.returns_T, real.returns_T)


def test_a_warm_start_is_made_again_only_where_a_run_lacks_its_weights(tmp_path):
    args = learning.parser().parse_args(["--only", "Echo", "--estimators", "gae"])
    found = learning.jobs(args, tmp_path)
    results = Results(tmp_path / "result.json", {})
    first = [job.key for job in learning.missing(found, results)]
    assert first[:4] == ["Echo/0/warm", "Echo/0/gae", "Echo/0/shuffled", "Echo/1/warm"]
    results.rows |= {job.key: {"final": 1.0} for job in found}
    cut = {"error": "stopped after 9 s"}
    results.rows |= {"Echo/1/gae": cut, "Echo/2/gae": cut}
    (tmp_path / "Echo-2").mkdir()
    wanted = ["Echo/1/warm", "Echo/1/gae", "Echo/2/gae"]
    assert [job.key for job in learning.missing(found, results)] == wanted


def test_an_estimator_starts_from_the_warm_started_weights_and_reports_a_curve(tmp_path):
    from llm_gym_agents.distributed.build import build_lm
    from llm_gym_agents.run.checkpoint_weights import save_lm

    made = learning_run.settings("Echo", 0)
    folder, batch = tmp_path / "weights", made.training.batch_size
    save_lm(folder, *build_lm(made, ECHO))
    row = learning_run.learn("Echo", 0, folder, "grpo", train=2 * batch, points=2, episodes=8)
    assert [point["episodes"] for point in row["curve"]] == [0, batch, 2 * batch]
    assert 0 == row["curve"][0]["cpu_s"] < row["curve"][1]["cpu_s"] < row["curve"][2]["cpu_s"]
    assert (row["iterations"], row["planned"]) == (2, 2)


def test_the_settings_that_won_the_sweep_run_every_seed_and_are_compared(tmp_path):
    def curve(*successes, cpu_s=10.0):
        return [
            {"updates": 10 * at, "episodes": 640 * at, "cpu_s": cpu_s * at, "success": success}
            for at, success in enumerate(successes)
        ]

    rows = {
        f"sweep/{side}/{name}/{trl_train.SWEEP_SEED}": {"curve": curve(0.3, end)}
        for side, settings in (("trl", trl_train.TRL), ("ours", trl_train.OURS))
        for name, end in zip(settings, (0.4, 0.7, 0.6, 0.5, 0.3, 0.2), strict=True)
    }
    args = argparse.Namespace(seeds=[0, 1], scale=1.0, episodes=400, python="python")
    keys = [job.key for job in trl_train.Plan(args, tmp_path).finals(rows)]
    assert keys[0] == f"final/trl/{list(trl_train.TRL)[1]}/0"
    assert len(keys) == 8
    rows = {
        "final/trl/a/0": {"side": "trl", "setting": "a", "curve": curve(0.3, 0.6, cpu_s=120.0)},
        "final/ours/b/0": {"side": "ours", "setting": "b", "curve": curve(0.3, 0.6, 0.9)},
    }
    assert trl_train.summary(rows)["ours, b"]["times_faster"] == pytest.approx(12.0)


def test_the_best_settings_of_two_trainers_are_compared_where_both_arrive():
    def run(side, seconds, *success):
        rows = [
            {"updates": at, "episodes": 64 * at, "seconds": seconds * at, "success": each}
            for at, each in enumerate(success, 1)
        ]
        return {"side": side, "backend": "vllm", "error": None, "rows": rows}

    sides = {
        "ours, a": run("ours", 1.0, *[0.2] * 5, *[0.8] * 5),
        "ours, b": run("ours", 0.5, *[0.2] * 10),
        "trl, a": run("trl", 3.0, *[0.2] * 15, *[0.5] * 5),
    }
    found = trl_gpu.summary(sides)
    assert found["best"] == {"ours": "ours, a", "trl": "trl, a"}
    # The mean of five batches is .5 halfway between the seventh and the eighth; TRL's, at the end.
    assert found["runs"]["ours, a"]["seconds_to_goal"] == pytest.approx(7.5)
    assert found["times_faster"] == pytest.approx(8.0)
    assert found["times_per_update"] == pytest.approx(3.0)


def test_figures_of_a_stage_leave_its_first_iteration_out():
    rows = [{"episode/tokens": tokens, "time/update_s": 1.0 * tokens} for tokens in (9, 2, 4)]
    found = ray_gpu.figures(rows, [10.0, 12.0, 13.0], 30)
    assert (found["iteration_s"], found["tokens_per_s"]) == (1.5, 30 * (2 + 4) / 3)
    assert found["median"] == {"episode/tokens": 3.0, "time/update_s": 3.0}


def test_an_episode_that_is_lost_or_comes_twice_is_counted():
    def chaotic(ids, loss):
        killed = [{"playing": True}]
        rows = [{"loss": loss}]
        return {"ids": ids, "rows": rows, "restarts": 2, "seconds": 9.0, "killed": killed}

    alone = {"rows": [{"loss": 1.0}], "seconds": 3.0}
    found = chaos.compared(chaotic([0, 1, 1, 3], 1.0), alone, 4)
    assert (found["lost"], found["doubled"], found["equal"]) == (1, 1, True)
    found = chaos.compared(chaotic([0, 1, 2, 3], 1.5), alone, 4)
    assert (found["lost"], found["doubled"], found["equal"]) == (0, 0, False)


def score(env_id, success, **other):
    about = {"episodes": 20, "turns": 3.0, "invalid": 0.25, "tokens": 12, "normalised": None}
    interval = {"success_low": 0.1, "success_high": 0.9}
    return {"env": env_id, "success": success, **about, **interval, **other}


def test_rows_of_a_later_evaluation_are_added_to_the_leaderboard(tmp_path):
    board = tmp_path / "board.json"
    leaderboard.add([score(ECHO, 0.5), score(COUNT, 0.5)], "small", "greedy", board)
    leaderboard.add({"rows": [score(COUNT, 1.0)]}, "small", "", board)
    model = leaderboard.read(board)["small"]
    assert {key: each["success"] for key, each in model["rows"].items()} == {ECHO: 0.5, COUNT: 1.0}
    assert model["note"] == "greedy"
    with pytest.raises(SystemExit, match="CartPole-v1"):
        leaderboard.add([score("CartPole-v1", 0.5)], "small", "", board)
    low, high = (published()[ECHO][player].success for player in ("random", "solver"))
    middle = {"half": {"note": "", "rows": {ECHO: score(ECHO, (low + high) / 2)}}}
    assert leaderboard.table(middle).splitlines()[-1].endswith("| 0.50 | 25% |")


def test_transfer_shows_the_family_and_what_surely_moved():
    taught, sister = "llm_gym/GuessTheNumber-v0", "llm_gym/GuessTheNumberHard-v0"
    before = {each: score(each, 0.5) for each in (COUNT, ECHO, sister, taught)}
    after = before | {ECHO: score(ECHO, 0.0, success_low=0.0, success_high=0.09)}
    models = {leaderboard.BEFORE: {"rows": before}, leaderboard.AFTER: {"rows": after}}
    *_, first, second, third, rest = leaderboard.transfer(models).splitlines()
    assert first.startswith(f"| `{taught}` |")
    assert second.startswith(f"| `{sister}` |")
    assert third.startswith(f"| `{ECHO}` | 0% | 50% (10% to 90%) | 0% (0% to 9%) |")
    assert rest.endswith("| 50.0% | 25.0% | |")

"""The learning curves: what a run reports, the control, and how far a curve has come."""

import importlib
import json
from pathlib import Path

import pytest
import torch

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.algo import TokenStream, get_advantage
from tests.agents.scored import episode


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module


def all_won(episodes):
    won = episode()
    won.success = True
    return Evaluation("llm_gym/Echo-v0", [won] * episodes, 0, 0.0)


def stream():
    lengths_E = torch.tensor([3, 4, 5])
    return TokenStream(
        reward_T=torch.randn(12),
        value_T=torch.randn(12),
        lengths_E=lengths_E,
        terminated_E=torch.ones(3, dtype=torch.bool),
        bootstrap_E=torch.zeros(3),
    )


def test_the_control_has_the_advantages_of_gae_on_other_tokens(script):
    script("curves.run")
    torch.manual_seed(0)
    given = stream()
    real = get_advantage("gae")(given, gamma=0.9, lam=0.9, discount="turn")
    control = get_advantage("shuffled")(given, gamma=0.9, lam=0.9)
    assert torch.equal(control.advantages_T.sort()[0], real.advantages_T.sort()[0])
    assert not torch.equal(control.advantages_T, real.advantages_T)
    assert torch.equal(control.returns_T, real.returns_T)


def test_the_way_to_a_goal_is_found_between_two_points(script):
    reached = script("curves.table").reached
    curve = [
        {"success": 0.1, "episodes": 0},
        {"success": 0.5, "episodes": 100},
        {"success": 0.9, "episodes": 200},
        {"success": 0.7, "episodes": 300},
    ]
    assert reached(curve, 0.1, "episodes") == 0
    assert reached(curve, 0.7, "episodes") == pytest.approx(150)
    assert reached(curve, 0.95, "episodes") is None


def test_the_table_tells_of_seeds_that_did_not_get_there(script):
    table = script("curves.table")
    start = {"success": 0.0, "episodes": 0, "cpu_s": 0.0}
    end = {"success": 0.9, "episodes": 90, "cpu_s": 9.0}
    rows = {
        f"Echo/{seed}/gae": {
            "game": "Echo", "seed": seed, "estimator": "gae", "final": final, "best": 0.9,
            "cpu_s": 10.0, "curve": [start, end][: 1 + won],
        }
        for seed, final, won in ((0, 0.9, 1), (1, 0.0, 0))
    } | {"Echo/2/gae": {"error": "stopped"}}  # fmt: skip
    line = table.table(rows, ["Echo"]).splitlines()[-1]
    cells = "2 | 0.0% | 45.0% | 0.0% to 90.0% | 90.0 | 10 | 1 of 2 | 1 of 2"
    assert line == f"| Echo | PPO, GAE | {cells} |"


def test_what_is_missing_comes_seed_by_seed_and_cheap_games_first(script, tmp_path):
    learning, lanes = script("learning"), script("lanes")
    args = learning.parser().parse_args(["--only", "Count", "Echo", "--estimators", "gae", "rloo"])
    found = learning.jobs(args, tmp_path)
    results = lanes.Results(tmp_path / "result.json", {})
    assert [job.key for job in learning.missing(found, results)][:7] == [
        "Echo/0/warm", "Count/0/warm",
        "Echo/0/gae", "Echo/0/rloo", "Echo/0/shuffled", "Count/0/gae", "Count/0/rloo",
    ]  # fmt: skip


def test_settings_can_be_tried_beside_those_by_default(script, tmp_path):
    learning, run = script("learning"), script("curves.run")
    flags = "--environment.env-kwargs penalty=0 --training.group-size 4"
    asked = ["--only", "Echo", "--seeds", "1", "--estimators", "grpo", "--flags", " ", flags]
    jobs = learning.jobs(learning.parser().parse_args(asked), tmp_path)
    assert [job.key for job in jobs] == ["Echo/1/warm", "Echo/1/grpo", f"Echo/1/grpo {flags}"]
    config = run.settings("Echo", 1, "grpo", flags.split())
    assert config.environment.env_kwargs == {"penalty": 0, "rules": "system"}
    assert config.training.group_size == 4
    assert run.settings("Echo", 1, "grpo").training.group_size == 8


def test_a_warm_start_is_made_again_only_where_a_run_lacks_its_weights(script, tmp_path):
    learning, lanes = script("learning"), script("lanes")
    args = learning.parser().parse_args(["--only", "Echo", "--estimators", "gae"])
    found = learning.jobs(args, tmp_path)
    results = lanes.Results(tmp_path / "result.json", {})
    results.rows |= {job.key: {"final": 1.0} for job in found} | {
        "Echo/1/gae": {"error": "stopped after 9 s"},
        "Echo/2/gae": {"error": "stopped after 9 s"},
    }
    (tmp_path / "Echo-2").mkdir()
    wanted = ["Echo/1/warm", "Echo/1/gae", "Echo/2/gae"]
    assert [job.key for job in learning.missing(found, results)] == wanted
    assert all(map(results.lacks, wanted))


def test_a_run_waits_for_its_warm_start_and_says_so_if_none_comes(script, tmp_path, monkeypatch):
    run = script("curves.run")
    monkeypatch.setattr(run, "PATIENCE", 0.0)
    with pytest.raises(TimeoutError, match="no warm-started model came to Echo-0"):
        run.wait_for(tmp_path / "Echo-0")


def test_an_estimator_begins_with_the_warm_started_weights_and_reports_a_curve(script, tmp_path):
    run = script("curves.run")
    made = run.settings("Echo", 0)
    folder, batch = tmp_path / "weights", made.training.batch_size
    from llm_gym_agents.build import build_lm
    from llm_gym_agents.checkpoint import save_lm

    save_lm(folder, *build_lm(made, "llm_gym/Echo-v0"))
    row = run.learn("Echo", 0, folder, "grpo", train=2 * batch, points=2, episodes=8)
    assert [point["episodes"] for point in row["curve"]] == [0, batch, 2 * batch]
    assert row["curve"][0]["cpu_s"] == 0.0
    assert 0 < row["curve"][1]["cpu_s"] < row["curve"][2]["cpu_s"]
    assert (row["iterations"], row["planned"]) == (2, 2)
    json.dumps(row)


def test_a_run_that_has_won_nearly_all_ends_and_is_scored_on_other_episodes(
    script, tmp_path, monkeypatch
):
    run = script("curves.run")
    folder, made = tmp_path / "weights", run.settings("Echo", 0)
    from llm_gym_agents.build import build_lm
    from llm_gym_agents.checkpoint import save_lm

    save_lm(folder, *build_lm(made, "llm_gym/Echo-v0"))
    monkeypatch.setattr(run.Curve, "evaluate", lambda self, **kwargs: all_won(100))
    scored = []
    monkeypatch.setattr(
        run, "evaluate", lambda sampler, tasks, **how: scored.extend(tasks) or all_won(1)
    )
    row = run.learn("Echo", 0, folder, "gae", train=10 * 256, points=10, episodes=8)
    assert (row["iterations"], row["planned"]) == (1, 10)
    assert len(scored) == run.FRESH
    assert min(task.id for task in scored) == 2**40 + 8


@pytest.mark.parametrize(
    ("taught", "waits", "rate"),
    [('{"from_solver": 1.0}', 3, 3e-4), ("{}", 0, 1e-3), (None, 0, 1e-3)],
)
def test_it_goes_on_slower_and_with_the_critic_where_a_solver_was_imitated(
    script, tmp_path, taught, waits, rate
):
    run = script("curves.run")
    config, place = run.settings("Echo", 0), tmp_path / run.TAUGHT
    if taught is not None:
        place.write_text(taught)
    run._after_solver(config, place)
    assert config.training.critic_warmup_iters == waits
    assert config.training.learning_rate == pytest.approx(rate)

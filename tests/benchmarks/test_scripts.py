"""What scripts make of their runs: settings, order, comparisons, the leaderboard."""

import argparse
import doctest
import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.envs import leaderboard
from benchmarks.learn import learning_run, referee, referee_run, tables
from benchmarks.lib import figures, lanes
from benchmarks.lib.machine import IMAGES
from benchmarks.peers import trl
from benchmarks.peers.tables import trl_cpu
from benchmarks.play.throughput import Recorder, bare
from llm_gym.evaluate.scores import published
from llm_gym_agents.algo import TokenStream, get_advantage
from llm_gym_agents.engines.base import Completion, FinishReason, Request, Sampling
from llm_gym_agents.engines.vllm import runtime
from tests.robustness import chaos
from tests.test_imports import imports

FOLDER = Path(__file__).parents[2] / "benchmarks"
WORKERS = ("worker.py", "trl_side.py", "agilerl_side.py")
"""Run where a peer is installed."""
SCRIPTS = [
    path
    for path in sorted(FOLDER.rglob("*.py"))
    if "__main__" in path.read_text() and path.name not in WORKERS
]
EXAMPLES = [path for path in sorted(FOLDER.rglob("*.py")) if "    >>> " in path.read_text()]
PEERS = {"ray", "vllm", "sglang", "textarena", "gem", "verl", "openenv"}
ECHO, COUNT = "llm_gym/Echo-v0", "llm_gym/Count-v0"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_prints_its_help_without_the_peers_package(path):
    assert "parse_args(" in path.read_text(), "it would measure when asked for --help"
    names = imports(path, top_level_only=True)
    assert not names & PEERS
    others = names - set(sys.stdlib_module_names)
    assert [name for name in sorted(others) if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_in_docstrings_hold(path):
    name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed


@pytest.mark.slow
@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_can_be_drawn_from_the_result_files(name, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "IMAGES", tmp_path)
    figures.FIGURES[name]()
    assert {path.name for path in tmp_path.iterdir()} <= {path.name for path in IMAGES.iterdir()}
    assert list(tmp_path.iterdir())


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


@pytest.mark.slow
def test_an_estimator_starts_from_the_warm_started_weights_and_reports_a_curve(tmp_path):
    from llm_gym_agents.run.checkpoint_weights import save_lm
    from llm_gym_agents.trainer.build import language_model

    made = learning_run.settings("Echo", 0)
    folder, batch = tmp_path / "weights", made.training.batch_size
    save_lm(folder, *language_model(made, ECHO))
    row = learning_run.learn("Echo", 0, folder, "grpo", train=2 * batch, points=2, episodes=8)
    assert [point["episodes"] for point in row["curve"]] == [0, batch, 2 * batch]
    assert 0 == row["curve"][0]["cpu_s"] < row["curve"][1]["cpu_s"] < row["curve"][2]["cpu_s"]
    assert (row["iterations"], row["planned"]) == (2, 2)


def test_an_episode_that_is_lost_or_comes_twice_is_counted():
    alone = {"rows": [{"loss": 1.0}], "seconds": 3.0}
    for ids, loss, counts in (
        ([0, 1, 1, 3], 1.0, (1, 1, True)),
        ([0, 1, 2, 3], 1.5, (0, 0, False)),
    ):
        run = {"ids": ids, "rows": [{"loss": loss}], "restarts": 2, "seconds": 9.0}
        found = chaos.compared(run | {"killed": [{"playing": True}]}, alone, 4)
        assert (found["lost"], found["doubled"], found["equal"]) == counts


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
    assert leaderboard.table(middle).splitlines()[-1].endswith("| - | 0.50 | - | - |")
    every = {env_id: score(env_id, 0.5) for env_id in leaderboard.IDS}
    shown = leaderboard.table({"even": {"note": "", "rows": every}}).splitlines()[-1]
    assert shown.startswith("| even | 50.0% |")
    assert shown.endswith("| 25% | 50.0% |")


@pytest.mark.parametrize(
    ("better", "verdict"),
    [([0.6, 0.7, 0.65], "holds"), ([0.1, 0.2, 0.15], "reversed"), ([0.4, 0.6, 0.5], "not seen"),
     ([0.9, 0.9], "not seen")],
)  # fmt: skip
def test_a_claim_holds_where_its_interval_leaves_out_zero(better, verdict):
    rows = {f"Echo/{seed}/grpo": {"mean": 0.5, "turns_won": None} for seed in range(3)}
    rows |= {f"Echo/{seed}/gigpo": {"mean": mean} for seed, mean in enumerate(better)}
    found = {each["claim"]: each for each in referee.verdicts(rows)}
    assert (found["gigpo"]["verdict"], found["gigpo"]["pairs"]) == (verdict, len(better))
    assert found["vine"]["verdict"] == "not run"
    assert f"| {verdict} |" in referee.shown(rows).splitlines()[2]


def test_a_claim_about_length_compares_the_turns_of_won_episodes():
    rows = {f"Echo/{seed}/reinforce": {"turns_won": 9.0} for seed in range(4)}
    rows |= {f"Echo/{seed}/discounted": {"turns_won": 7.0} for seed in range(3)}
    rows["Echo/3/discounted"] = {"turns_won": None}  # nothing was won
    (found,) = [each for each in referee.verdicts(rows) if each["claim"] == "shorter"]
    assert (found["gain"], found["pairs"], found["verdict"]) == (2.0, 3, "holds")


def test_the_referee_runs_missing_rows_and_survives_a_failed_run(tmp_path, monkeypatch):
    done, broken = [], {"Count/0/warm", "Memory/1/gigpo"}

    def run(job, timeout):
        done.append(job.key)
        if job.key in broken:
            return {"error": "it broke"}
        if job.key.endswith("warm"):
            Path(job.command[-2]).mkdir()
        return {"mean": 0.5, "turns_won": 2.0}

    monkeypatch.setattr(lanes, "run", run)
    chosen = {"claims": ["gigpo"], "seeds": [0, 1], "games": ["Count", "Memory"], "model": None}
    args = argparse.Namespace(**chosen, scale=1.0, minutes=1.0, lanes=1)
    for _ in range(2):
        results = lanes.Results(tmp_path / "referee.json", {})
        referee.run(args, results)
    warm = [f"{game}/{seed}/warm" for seed in range(2) for game in ("Count", "Memory")]
    first = [f"{game}/{seed}/{arm}" for game, seed in (("Memory", 0), ("Count", 1), ("Memory", 1))
             for arm in ("grpo", "gigpo")]  # fmt: skip
    assert done == [*warm, *first, "Count/0/warm", "Memory/1/warm", "Memory/1/gigpo"]


def test_correlations_are_means_over_games_without_missing_values():
    def found(value, ceiling=0.9):
        return {"estimators": {"gae": {"correlation": [value, None, None]}}, "ceiling": ceiling}

    rows = {
        "Echo/0": {"before": found(None, 0.0), "after": found(0.2)},
        "Echo/1": {"before": found(0.5), "after": found(0.4)},
        "Count/0": {"before": found(None), "after": found(0.6)},
        "Count/0 --flag 1": {"after": found(1.0)},
        "Memory/0": {"error": "it broke"},
    }
    assert tables.correlations(rows, "after")["gae"] == pytest.approx(0.45)
    assert tables.correlations(rows, "before") == {"gae": 0.5, "a perfect estimate": 0.9}
    assert tables.correlations({"Echo/0": {"after": found(None)}}, "after")["gae"] is None


def test_claims_name_known_arms_and_grpo_filtered_keeps_the_most_varied_groups():
    arms = {arm for claim in referee.CLAIMS.values() for arm in (claim.better, claim.worse)}
    assert len(referee.CLAIMS.keys() - {referee.OWN}) == 10
    assert referee.CLAIMS.keys() >= set(referee.MODEL_CLAIMS)
    assert arms == set(referee_run.ARMS)
    stream = TokenStream(
        reward_T=torch.tensor([1.0, 0.0, 1.0, 0.9, 0.5, 0.5]),
        lengths_E=torch.ones(6, dtype=torch.int64),
        group_E=torch.tensor([0, 0, 1, 1, 2, 2]),
    )
    kept = get_advantage("grpo_filtered")(stream, keep=0.4).advantages_T
    assert (kept != 0).tolist() == [True, True, False, False, False, False]


class FakeVLLM:
    """Answers every request in one step, two at a time."""

    def __init__(self):
        self.llm_engine, self.salt, self.requests, self.waiting = self, 3, [], []

    def add_request(self, name, prompt, parameters):
        assert prompt["cache_salt"] == "3"
        request = (name, prompt["prompt_token_ids"], parameters.max_tokens, parameters.seed)
        self.requests.append(request)
        self.waiting.append(name)

    def step(self):
        done, self.waiting = self.waiting[:2], self.waiting[2:]
        return [SimpleNamespace(request_id=name, finished=True) for name in done]


def test_bare_vllm_gets_the_recorded_prompts_and_reply_lengths(monkeypatch):
    lengths = {(0, 0): 3, (0, 1): 1, (1, 0): 2, (2, 0): 5}
    waiting = []

    def reply(request):
        ids = [7] * lengths[request.key, request.seed]
        return Completion(ids, [], FinishReason.STOP, 0, request.key)

    def poll(timeout=None):
        done, waiting[:] = list(waiting), []
        return [*map(reply, done)]

    engine = SimpleNamespace(submit=waiting.extend, poll=poll, _vllm=FakeVLLM())
    recorder, most = Recorder(engine), Sampling(max_tokens=64)
    for turn in (0, 1):
        engine.submit([Request([key, at], most, at, key) for key, at in lengths if at == turn])
        engine.poll()
    chains = recorder.stop()
    made = SimpleNamespace(max_tokens=1, seed=None)
    monkeypatch.setattr(runtime, "parameters", lambda *_, **__: made)
    bare(engine, chains)
    expected = [(str(key), [key, turn], length, turn) for (key, turn), length in lengths.items()]
    assert sorted(engine._vllm.requests) == expected
    assert [one[0] for one in engine._vllm.requests] == ["0", "1", "2", "0"]


def trl_run(*successes):
    points = [
        {"updates": at, "episodes": 64 * at, "seconds": 10.0 * at, "success": success}
        for at, success in enumerate(successes)
    ]
    return {"held_out": points, "batches": points[-1:]}


def test_an_arm_that_seldom_reaches_the_goal_has_no_median():
    rows = {
        "sweep/trl/rate 1e-3, 2 steps/5": trl_run(0.3, 0.5, 0.5),
        "sweep/trl/rate 2e-3, 2 steps/5": trl_run(0.3, 0.4, 0.9),
        "final/trl/rate 2e-3, 2 steps/0": trl_run(0.3, 0.5, 0.7),
        "final/trl/rate 2e-3, 2 steps/1": trl_run(0.3, 0.4, 0.5),
        "final/trl/rate 2e-3, 2 steps/2": trl_run(0.3, 0.4, 0.3),
        "final/trl/rate 1e-3, 2 steps/0": trl_run(0.3, 0.9, 0.9),  # of a sweep with fewer settings
        "sweep/ppo/rate 2e-3, 2 steps/5": trl_run(0.3, 0.4, 0.9),
        "final/ppo/rate 2e-3, 2 steps/0": trl_run(0.3, 0.9, 0.9),
        "final/ppo/rate 2e-3, 2 steps/1": {"error": "stopped"},
    }
    summary = trl.summary(rows, 0.6)
    assert list(summary) == ["ppo", "trl"]
    assert summary["ppo"]["to_goal"] == pytest.approx(5.0)
    theirs = summary["trl"]
    assert (theirs["to_goal"], theirs["reached"]) == (None, 1)
    assert theirs["final"] == pytest.approx(0.5)
    assert theirs["interval"] == pytest.approx(4.30 * 0.2 / 3**0.5)
    assert theirs["setting"] == str(trl.Setting(2e-3))


def trl_plan(*arms, model=""):
    args = {"arms": arms, "model": model, "python": "peers-python", "seconds": None}
    return trl.Plan(argparse.Namespace(**args), Path("weights"))


def test_agilerl_is_an_arm_on_cpus_only():
    sides = {job.key.split("/")[1]: job.command for job in trl_plan().sweep()}
    assert list(sides) == list(trl.ARMS)
    assert sides["agilerl"][:3] == ["peers-python", "-m", "benchmarks.peers.agilerl_side"]
    assert sides["trl"][:3] == ["peers-python", "-m", "benchmarks.peers.trl_side"]
    assert sides["ppo"][0] == sys.executable
    assert trl_plan(model="SmolLM2").arms == ["ppo", "ppo, unshaped", "grpo", "trl"]


def test_one_arm_of_the_comparison_can_be_run_alone():
    rows = {
        f"sweep/{arm}/{trl.Setting(rate)}/5": trl_run(0.3, rate, rate)
        for arm in ("agilerl", "trl")
        for rate in (5e-4, 1e-3)
    }
    plan = trl_plan("agilerl")
    assert len(plan.sweep()) == len(trl.SETTINGS["cpu"])
    finals = [job.key for job in plan.finals(rows)]
    assert finals == [f"final/agilerl/{trl.Setting(1e-3)}/{seed}" for seed in trl.SEEDS]
    rows |= dict.fromkeys(finals, trl_run(0.3, 0.4, 0.7))
    assert trl.summary(rows, 0.6)["agilerl"]["name"] == "AgileRL's PPO"
    shown = trl_cpu({"goal": 0.6, "rows": rows})
    assert "AgileRL's PPO" in shown
    assert "TRL's GRPO" not in shown

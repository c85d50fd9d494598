"""``llm-gym train``, ``resume`` and ``eval``, as somebody types them."""

import json
import os
import signal
import sys

import pytest
import torch

from llm_gym import cli
from llm_gym.cli import common
from llm_gym.core.errors import ConfigError, install_command
from llm_gym.episodes import read_episodes
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.commands.find_model import find_model
from llm_gym_agents.commands.run import _is_out_of_memory
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.run.metrics import read_metrics
from llm_gym_agents.trainer import build
from tests.agents.commands.conftest import SMALL, changed
from tests.agents.small_run import config_with, small, trained
from tests.agents.tiny import save_tiny


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys):
    out, err = capsys.readouterr()
    return out + err


def test_a_smoke_run_writes_every_file_of_a_run(here, capsys, monkeypatch):
    monkeypatch.setattr(build, "tiny_llama", tiny_llama)
    assert cli.main(["train", "text-game-easy", "--smoke"]) == 0
    run = here / "runs/text-game-easy-smoke"
    text = printed(capsys)
    assert "iteration 1/1" in text
    assert "held-out episode, seed" in text
    assert f"run:    {run.relative_to(here)} (curve.png)" in text
    assert "\x1b[" not in text  # a file is no terminal
    for name in ("config.json", "metrics.jsonl", "curve.png"):
        assert (run / name).stat().st_size > 0, name
    assert list((run / "tensorboard").iterdir())
    names = {path.name for path in (run / "checkpoints").iterdir()}
    assert names == {"iteration-000001", "best-000001"}
    for name in ("before", "eval-000001", "after"):
        assert len(list(read_episodes(run / f"episodes/{name}.jsonl"))) == 4


def test_a_second_run_of_a_config_file_gets_a_folder_of_its_own(here, capsys):
    config = config_with(environment__env_id="llm_gym/Echo-v0", training__learning_rate=0.02)
    config.save(here / "mine.yaml")
    (here / "runs/mine-smoke").mkdir(parents=True)
    (here / "runs/mine-smoke/metrics.jsonl").write_text('{"iteration": 1}\n')
    changed = ("--training.gamma", "0.5", "--warm-start.player", "solver")
    assert cli.main(["train", "mine.yaml", "--smoke", *SMALL[2:], *changed]) == 0
    text = printed(capsys)
    assert "runs/mine-smoke-2 (curve.png)" in text
    assert "imitated before the first iteration: the solver of the environment" in text
    made = ConfigStore.load(here / "runs/mine-smoke-2/config.json")
    assert (made.training.learning_rate, made.training.gamma) == (0.02, 0.5)


def no_room(*args, **settings):
    raise MemoryError


def ctrl_c(*args, **settings):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("stop", "code", "expected"), [(ctrl_c, 130, ""), (no_room, 2, "micro_batch_tokens")]
)
def test_resume_continues_after_an_interrupt_or_an_out_of_memory_error(
    run, capsys, monkeypatch, stop, code, expected
):
    changed(run, training={"num_epochs": 2})
    before = (run / "episodes/before.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(PPO, "update", stop)
        assert cli.main(["resume", str(run)]) == code
    text = printed(capsys)
    assert f"go on with: llm-gym resume {run}" in text
    assert expected in text
    assert cli.main(["resume", str(run)]) == 0
    text = printed(capsys)
    assert "continuing after iteration 1: 1 of 2 iterations done" in text
    assert "iteration 2/2" in text
    assert [row["iteration"] for row in read_metrics(run)] == [1, 2]
    assert (run / "episodes/before.jsonl").read_bytes() == before


@pytest.mark.parametrize("early", [False, True])
def test_resuming_a_finished_run_changes_no_file(run, capsys, early):
    if early:
        changed(run, training={"num_epochs": 2}, environment={"stop_at_success": 0.0})
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert cli.main(["resume", str(run)]) == 0
    assert "is finished after iteration 1" in printed(capsys)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_resume_refuses_a_run_that_had_a_reward_function(tmp_path, capsys):
    config = small(tmp_path)
    trained(config, "llm_gym/Echo-v0", reward_fn=lambda trajectory: 1.0)
    config.training.num_epochs = 2
    config.save(tmp_path / "config.json")
    assert cli.main(["resume", str(tmp_path)]) == 2
    assert "reward_fn" in printed(capsys)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "llm_gym/Echo-v0", "--training.group-size", "3"], "multiple of"),
        (["train", "FrozenLake-v1", "--environment.env-kwargs", "is_slipery=1"], "is_slipery"),
        (["train", "text-game-easy", "--environment.env-kwargs", "romes=4"], "romes"),
        (["train", "llm_gym/Echo-v0", "--model.model-name", "./no"], "'./no'"),
        (["train", "llm_gym/Echo-v0", "--training.normalise-values", "true"], "no-normalise-v"),
        (["train", "llm_gym/Echo-v0", "--training.no-normalise-values=1"], "takes no value"),
        (["train", "llm_gym/Echo-v0", "--training.no-gamma"], "no setting --training.no-gamma"),
        (["train", "llm_gym/Echo-v0", "--checkpoint.tracker", "mlflow/x"], "checkpoint.tracker"),
        (["train", "llm_gym/Echo-v0", "--warm-start.player", "no.jsonl"], "warm_start.player must"),
        (["train", "llm_gym/Echo-v0", "--import", ""], "import statement"),
        (["eval", "llm_gym/Echo-v0", "--model", "./no"], "'./no'"),
        (["eval", "--model", "tiny"], "--suite"),
        (["eval", "--suite", "Nothing", "--model", "x"], "suite"),
    ],
)
def test_a_wrong_argument_gives_a_one_line_error(here, capsys, arguments, expected):
    assert cli.main(arguments) == 2
    text = printed(capsys)
    assert expected in text.splitlines()[-1]
    assert not list(here.rglob("*.json*"))


def test_eval_plays_a_run_folder_with_its_training_settings(echo_run, capsys):
    out = echo_run.parent / "records"
    assert cli.main(["eval", "--model", str(echo_run), "--episodes", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "llm_gym/Echo-v0" in shown.out
    assert "Loading weights" not in shown.err, "no bars of others"
    episodes = list(read_episodes(out / "llm_gym_Echo-v0.jsonl"))
    config = ConfigStore.load(echo_run / "config.json")
    assert config.inference.max_turns == 4 >= max(episode.num_turns for episode in episodes)
    most = config.inference.max_tokens
    assert all(len(action.split()) <= most for episode in episodes for action in episode.actions)


def test_eval_warns_of_unknown_success_and_of_failed_episodes(echo_run, here, capsys, monkeypatch):
    (here / "odd_games.py").write_text(
        "import gymnasium as gym\n"
        "from llm_gym.core.spaces import AnyText\n"
        "class Quiet(gym.Env):\n"
        "    action_space = observation_space = AnyText(100)\n"
        "    def reset(self, *, seed=None, options=None): return 'Go.', {}\n"
        "    def step(self, action): return 'Over.', 1.0, True, False, {}\n"
        "class Broken(Quiet):\n"
        "    def step(self, action): raise RuntimeError('no licence')\n"
    )
    monkeypatch.syspath_prepend(str(here))
    how = ("--model", str(echo_run), "--episodes", "2")
    assert cli.main(["eval", "odd_games:Quiet", *how]) == 0
    assert "2 episodes" in capsys.readouterr().err
    assert cli.main(["eval", "odd_games:Broken", *how]) == 1
    assert "2 of 2 episodes" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "play"])
def test_a_run_folder_cannot_import_code_by_itself(run, tmp_path, capsys, monkeypatch, command):
    changed(run, environment={"env_id": "planted:llm_gym/Echo-v0"})
    (tmp_path / "planted.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cli.main([command, "--model", "run", "--seed", "1"]) == 2
    assert "planted:llm_gym/Echo-v0 --model run" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert cli.main([command, "--model", "run", "--import", "planted", "--seed", "1"]) == 0
    assert (tmp_path / "ran").exists()


def test_train_refuses_a_run_folder_as_model_and_names_its_final_model(run, capsys):
    assert cli.main(["train", "llm_gym/Echo-v0", "--model", str(run), "--dry-run"]) == 2
    assert f"--model {run}/final" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "play"])
def test_a_misspelt_folder_is_not_looked_up_on_the_hub(here, capsys, monkeypatch, command):
    (here / "runs").mkdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert cli.main([command, "llm_gym/Echo-v0", "--model", "runs/Ech"]) == 2
    assert "runs/Ech" in capsys.readouterr().err


def test_without_the_hub_a_model_is_taken_from_the_cache(here, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("HF_HUB_CACHE", str(here))
    common._check_hub.cache_clear()
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9"):
        common.check_model_path("someone/model")
    (here / "models--someone--model").mkdir()
    common.check_model_path("someone/model")
    assert os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("is_taught", "expected"),
    [(False, "before the first checkpoint"), (True, "llm-gym resume runs/Echo-v0-smoke")],
)
def test_an_interrupt_prints_how_to_continue(here, capsys, monkeypatch, is_taught, expected):
    def interrupt(trainer, *_):
        if is_taught:
            (trainer.folder / "warm-start").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(PPOTrainer, "warm_up", interrupt)
    assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *SMALL]) == 130
    assert expected in printed(capsys)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["--inference.backend", "vllm"], install_command("vllm")),
        (["--inference.backend", "sglang"], install_command("sglang")),
        (["--ray.use-ray"], install_command("ray")),
        (["--checkpoint.tracker", "wandb/games"], install_command("wandb")),
        (["--model.model-name", "nowhere/at/all"], "nowhere/at/all"),
    ],
)
def test_a_missing_package_or_model_is_reported_before_the_plan(
    here, capsys, monkeypatch, settings, expected
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for how in (["--dry-run"], []):
        assert cli.main(["train", "llm_gym/Echo-v0", *settings, *how]) == 2
        shown = capsys.readouterr()
        assert expected in shown.err
        assert shown.out == ""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"))


def test_eval_suite_uses_the_split_where_an_environment_has_splits(here, model, capsys):
    how = ["--model", model, "--episodes", "2", "--max-tokens", "2", "--split", "test", "--json"]
    assert cli.main(["eval", "--suite", "Echo", "FrozenLake-v0", *how]) == 0
    shown = capsys.readouterr()
    assert [each["env"][8:-3] for each in json.loads(shown.out)] == ["FrozenLake", "Echo"]
    assert "failed" not in shown.err
    assert cli.main(["eval", "llm_gym/Echo-v0", *how]) == 2
    assert "--split" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["final", "checkpoints/iteration-000001/model"])
def test_eval_of_a_model_inside_a_run_uses_the_settings_of_the_run(echo_run, here, capsys, model):
    def result(place):
        assert cli.main(["eval", "--model", str(place), "--episodes", "8", "--json"]) == 0
        [found] = json.loads(capsys.readouterr().out)
        return {name: found[name] for name in found if name != "tokens_per_s"}

    assert result(echo_run / model) == result(echo_run)  # also which game it plays


@pytest.mark.parametrize(("env_id", "named"), [(None, ""), ("evil_module:Evil-v0", "evil_module")])
def test_a_broken_or_untrusted_run_config_is_ignored_with_a_warning(run, capsys, env_id, named):
    if env_id is None:
        (run / "config.json").write_text("{")
    else:
        changed(run, environment={"env_id": env_id})
    assert find_model(str(run / "final")) == (str(run / "final"), ConfigStore())
    [line] = capsys.readouterr().err.splitlines()
    assert (named or str(run)) in line


def test_a_hub_model_is_not_taken_for_a_part_of_the_current_folder(echo_run, monkeypatch, capsys):
    monkeypatch.chdir(echo_run)
    assert find_model("someone/model") == ("someone/model", ConfigStore())
    assert capsys.readouterr().err == ""


def test_sigterm_during_the_warm_start_prints_how_to_continue(tmp_path, monkeypatch, capsys):
    def send_sigterm(*args, on_step, **settings):
        on_step(1, 0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("llm_gym_agents.learn.warm_start.imitate", send_sigterm)
    where = ("--checkpoint.output-dir", str(tmp_path / "run"))
    assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *SMALL, *where]) == 0
    assert "the same command begins again" in printed(capsys)


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("shapes do not match"), False),
    ],
)
def test_out_of_memory_errors_are_recognised(error, memory):
    assert _is_out_of_memory(error) is memory

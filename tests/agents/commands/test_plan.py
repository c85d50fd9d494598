"""What ``llm-gym train`` prints before and after a run, and ``llm-gym play``."""

import io
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from rich.console import Console

from llm_gym import cli
from llm_gym_agents.commands.find_model import as_trained, played_with
from llm_gym_agents.commands.plan import few_choices, next_commands
from llm_gym_agents.commands.run import _introduce
from llm_gym_agents.config import ConfigStore, parse_args
from llm_gym_agents.config.defaults import CHOSEN, Choice
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.recipes import Recipe, find_recipe
from llm_gym_agents.rollouts.evaluation import rollout
from tests.agents.small_run import config_with
from tests.agents.tiny import save_tiny

ECHO, GUESS = "llm_gym/Echo-v0", "llm_gym/GuessTheNumber-v0"
COIN = "tests.agents.odd:Coin"


def test_without_a_target_the_recipes_are_listed(capsys):
    assert cli.main(["train"]) == 0
    text = capsys.readouterr().out
    assert "text-game-easy" in text
    assert "expected: held-out success" in text
    demo = find_recipe("text-game-easy").config.training
    most = demo.num_epochs * demo.num_iters_per_epoch * demo.batch_size
    assert f"at most {most:,} episodes" in text
    assert "--dry-run" in text


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "llm_gym/Echo-v0", "--dry-run", "--training.batch-size", "16"]) == 0
    text = capsys.readouterr().out
    assert "at most 448 sampled in an iteration" in text  # 16 episodes, 4 turns, 7 tokens
    assert "160 iterations, 2,560 episodes" in text
    assert "training.batch_size" in text
    assert "chosen by you" in text
    assert re.search(r"  reading less\b", text)
    assert not list(tmp_path.iterdir())


def test_a_smoke_run_has_no_more_workers_than_environments(tmp_path):
    how = ["--smoke", "--environment.workers", "8", "--out", str(tmp_path / "run"), "--dry-run"]
    assert cli.main(["train", "llm_gym/Echo-v0", *how]) == 0


def test_brackets_in_settings_are_not_read_as_rich_markup():
    config, out = ConfigStore(), io.StringIO()
    config.warm_start.player, config.warm_start.turns = "[/a].jsonl", 5
    _introduce(Recipe("mine", "On [/b].", config), config, [], Console(file=out, width=200))
    assert "[/a].jsonl" in out.getvalue()
    assert "[/b]" in out.getvalue()


def test_the_next_commands_of_a_finished_run_work(run, capsys):
    assert cli.main(["resume", str(run)]) == 0
    lines = capsys.readouterr().out.partition("next:\n")[2].splitlines()
    assert [line.split()[1] for line in lines] == ["play", "eval", "view"]
    for line, more in zip(lines, ([], ["--episodes", "2"]), strict=False):
        words = [word.strip("'") for word in line.split()[1:]]
        assert cli.main([*words, *more]) == 0, line
    text = capsys.readouterr().out
    assert text.count("after 4 turns, return") == 1
    assert "success" in text


def test_evaluation_settings_are_those_of_training():
    kwargs = {"is_slippery": False, "rules": "system", "penalty": 0.1}
    config = config_with(environment__env_id="FrozenLake-v1", environment__env_kwargs=kwargs)
    config.inference.max_turns = 30
    settings = as_trained(config.inference)
    assert (settings["max_turns"], settings["temperature"]) == (30, 1.0), "as training played"
    assert played_with(config.environment, "FrozenLake-v1") == {"is_slippery": False}
    assert played_with(config.environment, "CartPole-v1") == {}, "which has no such setting"


def test_next_commands_quote_paths_with_spaces():
    config = config_with(environment__env_id="llm_gym/Echo-v0")
    for line in next_commands(config, Path("my runs/echo")).splitlines()[1:]:
        assert shlex.split(line)[-1] == "my runs/echo"


def test_max_turns_cuts_an_endless_environment(tmp_path):
    model = save_tiny(tmp_path / "model")
    short = {"context": "observation", "system_prompt": "", "sampling": Sampling(max_tokens=2)}
    played = rollout(
        "CliffWalking-v1", model, 2, max_turns=3, env_kwargs={"rules": "system"}, **short
    )
    assert [episode.num_turns for episode in played.episodes] == [3, 3]


def test_play_shows_each_move_and_needs_a_checkpoint(echo_run, capsys, tmp_path):
    assert cli.main(["play", "llm_gym/Echo-v0", "--model", str(echo_run)]) == 0
    out = capsys.readouterr().out
    assert out.count("\n> ") == 4
    assert not out.startswith("\n")
    ConfigStore().save(tmp_path / "config.json")
    assert cli.main(["play", "llm_gym/Echo-v0", "--model", str(tmp_path)]) == 2
    assert "checkpoint" in capsys.readouterr().err


def test_a_suite_is_a_mix_in_equal_shares(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--suite", "echo", "GuessTheNumberEasy", "--training.gamma", "0.5", "--dry-run"]
    assert cli.main(["train", *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "training.gamma 0.5 chosen by you" in text
    assert "2 games in equal shares: llm_gym/GuessTheNumberEasy-v0, llm_gym/Echo-v0" in text
    assert "runs/suite-echo-guessthenumbereasy" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["llm_gym/Echo-v0", "--suite", "echo"], "llm_gym/Echo-v0"),
        (["--suite", "nothing-like-it"], "nothing-like-it"),
        (["--suite", "Nothing"], "llm-gym list"),
        (["mix.json"], "environment.mix"),
        (["nothing.yaml"], "nothing.yaml"),
        (["llm_gym/Echo-v0", "--environment.mix", "llm_gym/Echo-v0=-1"], "environment.mix"),
        (["llm_gym/Echo-v0", "--environment.env-kwargs"], "--environment.env-kwargs"),
        (["FrozenLake-v1", "--warm-start.player", "reflex"], "FrozenLake-v1 has no reflex"),
        ([COIN, "--warm-start.player", "solver"], f"{COIN} has no solver"),
        (
            ["two.json", "--warm-start.player", "solver", "--smoke"],
            f"{COIN} has no solver",
        ),
    ],
)
def test_an_unplayable_target_gives_a_one_line_error(words, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mix.json").write_text('{"environment": {"mix": {"llm_gym/Echo-v0": 0}}}')
    (tmp_path / "two.json").write_text(json.dumps({"environment": {"mix": {ECHO: 1, COIN: 1}}}))
    (tmp_path / "nothing.yaml").write_text("training: {batch_size: 8}")
    assert cli.main(["train", *words, "--dry-run"]) == 2
    printed = capsys.readouterr().err
    assert named in printed
    assert printed.count("\n") == 1


def test_a_dry_run_accepts_players_that_are_there_and_emptied_settings(tmp_path, capsys):
    for player in ("random", "best_random"):
        assert cli.main(["train", COIN, "--warm-start.player", player, "--dry-run"]) == 0
    assert cli.main(["train", ECHO, "--warm-start.player", "reflex", "--dry-run"]) == 0
    file = tmp_path / "six.json"
    file.write_text(json.dumps({"environment": {"env_id": GUESS, "env_kwargs": {"high": 6}}}))
    assert cli.main(["train", str(file), "--environment.env-kwargs", "--dry-run"]) == 0


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


def test_the_kuberay_example_parses_and_its_command_is_valid():
    job = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    [players] = cluster["workerGroupSpecs"]
    config = config_of(job["spec"]["entrypoint"])
    assert config.ray.num_actors == players["replicas"]
    assert config.ray.address == "auto"
    [container] = players["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_slurm_example_parses_and_its_command_is_valid():
    script = EXAMPLES / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text()
    config = config_of(text[text.index("    torchrun") :])
    assert config.ray.use_ray
    assert config.parallel.mode == "fsdp"
    assert config.checkpoint.resume


def test_the_users_settings_are_listed_and_defaults_are_counted():
    own = Choice("training.seed", 7, CHOSEN)
    other = Choice("training.batch_size", 7, "measured")
    assert len(few_choices([own])) == 1
    first, second = few_choices([own, other])
    assert "training.seed" in first
    assert second.startswith("1 setting ")


def test_a_config_file_alone_is_named_as_what_to_train(capsys):
    assert cli.main(["train", "--config", "mix.yaml", "--dry-run"]) == 2
    assert "llm-gym train mix.yaml;" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_dry_run_refuses_a_device_that_is_not_there(capsys):
    how = ["--dry-run", "--model.device", "cuda"]
    assert cli.main(["train", "llm_gym/Echo-v0", *how]) == 2
    assert "model.device must be a device of this machine, got 'cuda'" in capsys.readouterr().err


def test_a_dry_run_notes_adapters_on_random_weights(capsys):
    pytest.importorskip("peft")
    assert cli.main(["train", "llm_gym/Echo-v0", "--dry-run", "--model.lora-rank", "4"]) == 0
    assert "\nnote: model.lora_rank=4 keeps the weights" in capsys.readouterr().out

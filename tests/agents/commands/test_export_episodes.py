"""``llm-gym export episodes`` and ``train --warm-start-only``, which reads what it writes."""

import json
import re

import pytest

from llm_gym import cli
from llm_gym.core.errors import ConfigError
from llm_gym.core.splits import split_of
from llm_gym.envs.questions.dataset import DatasetEnv
from llm_gym_agents.commands.export import main
from llm_gym_agents.model.load import load_model, load_tokenizer

GUESS, ECHO = "llm_gym/GuessTheNumber-v0", "llm_gym/Echo-v0"
DATA = "llm_gym.envs.questions.dataset:DatasetEnv"
FEW = ("--warm-start.turns", "40", "--warm-start.steps", "3", "--inference.max-tokens", "3")


def export(tmp_path, env, *arguments):
    out = tmp_path / "data" / "episodes.jsonl"
    assert main(["episodes", env, "--out", str(out), *arguments]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_exported_messages_hold_rules_observations_and_moves(tmp_path, capsys):
    settings = ("--set", "rules=system", "--set", "action_format=tag", "--seed", "7")
    rows = export(tmp_path, GUESS, "--episodes", "3", "--player", "oracle", *settings)
    assert [row["seed"] for row in rows] == [7, 8, 9]
    assert {(row["player"], row["env_id"], row["success"]) for row in rows} == {
        ("oracle", GUESS, True)
    }
    for row in rows:
        roles = [message["role"] for message in row["messages"]]
        assert roles == ["system", *["user", "assistant"] * row["turns"]]
        assert row["messages"][2]["content"].startswith("<action>")
    assert "3 rows" in capsys.readouterr().out


def test_a_game_without_a_list_of_moves_is_exported_with_its_examples(tmp_path):
    rows = export(tmp_path, "tests.agents.odd:Coin", "--episodes", "4", "--player", "random")
    said = {message["content"] for row in rows for message in row["messages"][1::2]}
    assert said == {"heads", "tails"}


def test_train_instances_are_the_default_where_there_are_splits(tmp_path):
    game = "llm_gym/TextGameEasy-v0"
    for arguments, splits in (((), {"train"}), (("--split", "test"), {"test"})):
        rows = export(tmp_path, game, "--episodes", "10", *arguments)
        assert {split_of(row["instance_id"]) for row in rows} == splits
    rows = export(tmp_path, game, "--episodes", "60", "--split", "all")
    assert len({split_of(row["instance_id"]) for row in rows}) > 1


def test_an_export_can_be_read_as_a_dataset_environment(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{n}?", "answer": n}) + "\n" for n in range(9)))
    how = ("--player", "oracle", "--split", "all", "--episodes", "9", "--set", "rules=system")
    export(tmp_path, DATA, "--set", f"dataset={rows}", *how)
    env = DatasetEnv(dataset=tmp_path / "data" / "episodes.jsonl", prompt="messages")
    assert env.num_rows == 9
    env.reset(seed=0)
    assert env.step(env.describe().rstrip("?"))[4]["success"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([GUESS, "--episodes", "0"], "--episodes"),
        (["llm_gym/Nothing-v0"], "llm_gym/Nothing-v0"),
        ([GUESS, "--split", "test"], "splits"),
        (["tests.agents.odd:Coin"], "Coin has no solver player"),
        (["FrozenLake-v1"], "FrozenLake-v1 has no solver player"),
        ([GUESS, "--player", "random", "--only-won", "--episodes", "1"], "--only-won"),
        ([GUESS, "--out", "x.csv"], "--out"),
    ],
)
def test_a_wrong_argument_leaves_older_files_unchanged(tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "episodes.jsonl").write_text("older")
    with pytest.raises(ConfigError, match=named):
        main(["episodes", *arguments])
    assert (tmp_path / "episodes.jsonl").read_text() == "older"


@pytest.mark.parametrize(
    ("player", "imitated"),
    [
        pytest.param(["--warm-start.player", "random"], "random", marks=pytest.mark.slow),
        pytest.param(["--warm-start.player", "auto"], "solver", marks=pytest.mark.slow),
        ([], "solver"),  # as in a run
    ],
)
def test_warm_start_only_writes_a_loadable_model(tmp_path, player, imitated, capsys):
    out = tmp_path / "model"
    how = ("--warm-start.rounds", "1", *player, "--out", str(out))
    assert cli.main(["train", ECHO, "--warm-start-only", *FEW, *how]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"imitating (the )?{imitated}", text)
    assert f"--model {out}" in text
    tokenizer = load_tokenizer(str(out))
    assert load_model(str(out)).config.vocab_size == len(tokenizer)


def test_warm_start_only_supports_dry_run_and_smoke(tmp_path, capsys):
    out = ["--out", str(tmp_path / "model")]
    assert cli.main(["train", ECHO, "--warm-start-only", "--dry-run", *out]) == 0
    assert not (tmp_path / "model").exists()
    assert cli.main(["train", ECHO, "--warm-start-only", "--smoke", *out]) == 0
    assert "2 steps" in capsys.readouterr().out


def test_a_warm_start_imitates_exported_episodes(tmp_path, capsys):
    data, out = tmp_path / "echo.jsonl", tmp_path / "model"
    arguments = ["--episodes", "3", "--out", str(data), "--set", "rules=system"]
    assert cli.main(["export", "episodes", ECHO, *arguments]) == 0
    given = ["--warm-start.player", str(data), "--out", str(out)]
    assert cli.main(["train", ECHO, "--warm-start-only", *FEW, *given]) == 0
    assert "12 moves" in capsys.readouterr().out


def test_warm_start_only_refuses_a_folder_that_is_not_empty(tmp_path, capsys):
    (tmp_path / "mine").write_text("")
    assert cli.main(["train", ECHO, "--warm-start-only", "--out", str(tmp_path), *FEW]) == 2
    assert "--out" in capsys.readouterr().err

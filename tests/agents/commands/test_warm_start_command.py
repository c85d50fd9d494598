"""``llm-gym warm-start``, as somebody types it."""

import pytest

from llm_gym import cli
from llm_gym_agents.model.load import load_model, load_tokenizer

FEW = ("--warm-start.turns", "40", "--warm-start.steps", "3", "--inference.max-tokens", "3")


def test_it_writes_a_model_that_can_be_loaded(tmp_path, capsys):
    out = tmp_path / "model"
    once = ("--warm-start.rounds", "1")
    assert cli.main(["warm-start", "llm_gym/Echo-v0", "--out", str(out), *FEW, *once]) == 0
    text = capsys.readouterr().out
    assert "40 moves, 3 steps, loss" in text
    assert f"--model.model-name {out}" in text
    tokenizer = load_tokenizer(str(out))
    assert load_model(str(out)).config.vocab_size == len(tokenizer)


def test_the_data_of_sft_data_is_a_source_that_is_read_once(tmp_path, capsys):
    data = tmp_path / "echo.jsonl"
    arguments = ["--episodes", "3", "--out", str(data), "--set", "rules=system"]
    assert cli.main(["sft-data", "llm_gym/Echo-v0", *arguments]) == 0
    out = tmp_path / "model"
    given = ["--file", str(data), "--out", str(out)]
    assert cli.main(["warm-start", "llm_gym/Echo-v0", *given, *FEW]) == 0
    assert "12 moves" in capsys.readouterr().out


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("")
    assert cli.main(["warm-start", "llm_gym/Echo-v0", "--out", str(tmp_path), *FEW]) == 2
    assert "--out must be a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("player", ["solver", "auto"])
def test_other_players_can_be_asked_for(tmp_path, player, capsys):
    given = ["--player", player, "--out", str(tmp_path / "model")]
    assert cli.main(["warm-start", "llm_gym/Echo-v0", *given, *FEW]) == 0
    assert "warm start: imitating" in capsys.readouterr().out

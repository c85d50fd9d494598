"""``llm-gym sft-data``: what it writes, and that it writes all or nothing."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from llm_gym import cli
from llm_gym.core.splits import split_of
from llm_gym.envs.questions.dataset import DatasetEnv
from llm_gym.episodes import read_episodes
from llm_gym.errors import ConfigError
from llm_gym_agents.commands.sft_data import main

ROOT = Path(__file__).parents[3]
GUESS = "llm_gym/GuessTheNumber-v0"


def export(tmp_path, env, *arguments):
    out = tmp_path / "data" / "sft.jsonl"
    assert main([env, "--out", str(out), *arguments]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return lines, list(read_episodes(tmp_path / "data" / "sft.episodes.jsonl"))


def test_a_conversation_goes_from_the_rules_to_the_last_move(tmp_path, capsys):
    lines, episodes = export(tmp_path, GUESS, "--episodes", "5")
    assert len(lines) == len(episodes) == 5
    for line, episode in zip(lines, episodes, strict=True):
        assert list(line) == ["messages"]
        roles = [message["role"] for message in line["messages"]]
        assert roles == ["user", "assistant"] * episode.num_turns
        said = [m["content"] for m in line["messages"] if m["role"] == "assistant"]
        assert said == episode.actions
        assert line["messages"][0]["content"] == episode.states[0]
    assert "5 of 5 episodes of solver" in capsys.readouterr().out


def test_records_name_player_seed_and_environment(tmp_path):
    _, episodes = export(tmp_path, GUESS, "--episodes", "3", "--seed", "7", "--player", "oracle")
    assert [episode.seed for episode in episodes] == [7, 8, 9]
    assert {(episode.policy, episode.env_id) for episode in episodes} == {("oracle", GUESS)}
    assert all(episode.success for episode in episodes)


def test_settings_reach_the_environment(tmp_path):
    settings = ("--set", "rules=system", "--set", "action_format=tag", "--episodes", "1")
    lines, _ = export(tmp_path, GUESS, *settings)
    assert lines[0]["messages"][0]["role"] == "system"
    assert lines[0]["messages"][2]["content"].startswith("<action>")


def test_lost_episodes_can_be_left_out(tmp_path):
    arguments = (GUESS, "--episodes", "40", "--player", "random")
    _, everything = export(tmp_path, *arguments)
    lines, won = export(tmp_path, *arguments, "--only-won")
    assert [e.seed for e in won] == [e.seed for e in everything if e.success]
    assert len(lines) == len(won)
    assert 0 < len(won) < 40


def test_train_instances_are_the_default_where_there_are_splits(tmp_path):
    for arguments, splits in (((), {"train"}), (("--split", "test"), {"test"})):
        _, episodes = export(tmp_path, "llm_gym/TextGameEasy-v0", "--episodes", "10", *arguments)
        assert {split_of(episode.instance_id) for episode in episodes} == splits
    _, episodes = export(tmp_path, "llm_gym/TextGameEasy-v0", "--episodes", "60", "--split", "all")
    assert len({split_of(episode.instance_id) for episode in episodes}) > 1


def test_what_it_writes_is_a_data_set_of_ours(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{n}?", "answer": n}) + "\n" for n in range(9)))
    export(
        tmp_path, "llm_gym.envs.questions.dataset:DatasetEnv", "--set", f"dataset={rows}",
        "--player", "oracle", "--split", "all", "--episodes", "9", "--set", "rules=system",
    )  # fmt: skip
    env = DatasetEnv(dataset=tmp_path / "data" / "sft.jsonl", prompt="messages")
    assert env.num_rows == 9
    env.reset(seed=0)
    assert env.step(env.describe().rstrip("?"))[4]["success"]


def test_an_environment_without_that_player_says_so_and_leaves_no_file(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "?", "answer": 1}\n')
    command = [
        "llm_gym.envs.questions.dataset:DatasetEnv",
        "--set",
        f"dataset={rows}",
        "--split",
        "all",
    ]
    with pytest.raises(ConfigError, match=r"has no solver: .*; try --player with random, oracle"):
        main([*command, "--out", str(tmp_path / "out" / "sft.jsonl")])
    assert list((tmp_path / "out").iterdir()) == []


def test_older_files_survive_a_failure(tmp_path):
    export(tmp_path, GUESS, "--episodes", "2")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    out = str(tmp_path / "data" / "sft.jsonl")
    with pytest.raises(ConfigError, match="random won none of 1 episodes"):
        main([GUESS, "--player", "random", "--only-won", "--episodes", "1", "--out", out])
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([GUESS, "--episodes", "0"], "--episodes must be a whole number of at least 1"),
        (["llm_gym/Nothing-v0"], "there is no environment 'llm_gym/Nothing-v0'"),
        ([GUESS, "--split", "test"], "has too few instances for splits"),
        (["llm_gym.legacy:SimpleGameEnvironment"], "brings no solver along; give its class"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        main(arguments)


def test_it_is_a_command_of_llm_gym(tmp_path, monkeypatch, capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    target = project["project"]["entry-points"][cli.GROUP]["sft-data"]
    entry = EntryPoint("sft-data", target, cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [entry])
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sft-data", GUESS, "--episodes", "1"]) == 0
    assert (tmp_path / "sft.jsonl").exists()
    assert "1 of 1 episodes" in capsys.readouterr().out
    assert cli.main(["sft-data", GUESS, "--episodes", "0"]) == 2
    assert "--episodes must be a whole number of at least 1" in capsys.readouterr().err

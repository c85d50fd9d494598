"""Hostile files of episodes: nothing in them is run."""

import gzip
import json
import os
from pathlib import Path

import gymnasium as gym
import pytest

from llm_gym.cli import main
from llm_gym.core.errors import RecordError
from llm_gym.episodes import Trajectory, files, play_episode, read_episodes, write_episodes
from llm_gym.episodes.replay import rebuild, replay

GAME = "llm_gym/GuessTheNumber-v0"


def played(game: str = GAME, /, **settings) -> Trajectory:
    env = gym.make(game, **settings)
    try:
        return play_episode(env, lambda observation: "7", seed=3)
    finally:
        env.close()


def with_spec(**changes) -> Trajectory:
    episode = played()
    episode.env_spec = {**(episode.env_spec or {}), **changes}
    return episode


def tool_use(tools: object) -> list[dict]:
    entry = "llm_gym.wrappers.tool_use:ToolUse"
    return [{"name": "ToolUse", "entry_point": entry, "kwargs": {"tools": tools}}]


PLANT = "ATTACH '{0}/planted.pth' AS x; CREATE TABLE x.t (a); INSERT INTO x.t VALUES ('import os');"
HOSTILE_TOOLS = [
    {"tool": "sql", "database": PLANT},
    [{"tool": "sql", "database": PLANT}],
    [{"tool": "sql", "database": "VACUUM INTO '{0}/planted';"}],
    [{"tool": "sql", "database": "{0}/some.db"}],
    [{"tool": "python", "isolation": "none"}],
    [{"tool": "python", "timeout": 1e9}],
    [{"tool": "os:system"}],
    ["os:getcwd"],
    [{"mcp": ["/usr/bin/touch", "{0}/planted"]}],
    [{"mcp": "http://127.0.0.1:1/"}],
    [{"tool": "search", "corpus": "/etc/hostname"}],
    [{"tool": "finish", "setting_of_tomorrow": 1}],
    [None], 7, {"tool": ["sql"]}, {},
]  # fmt: skip


@pytest.mark.parametrize("tools", HOSTILE_TOOLS, ids=lambda tools: str(tools)[:40])
def test_replaying_a_foreign_record_runs_and_writes_nothing(tmp_path, capsys, tools):
    tools = json.loads(json.dumps(tools).replace("{0}", str(tmp_path)))
    file = tmp_path / "episodes.jsonl"
    episode = with_spec(additional_wrappers=tool_use(tools))
    call = '<tool_call>{"name": "sql", "arguments": {"query": "SELECT 1"}}</tool_call>'
    episode.states, episode.actions[0] = [], call  # nothing that could differ before the call
    write_episodes(file, [episode])
    assert main(["replay", str(file)]) > 0
    assert "0 the same" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["episodes.jsonl"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kwargs": {"low": 10**9}},
        {"kwargs": {"language": "os:system"}},
        {"kwargs": {"path": "/etc/passwd"}},
        {"kwargs": {"x": [[[[[[[1]]]]]]]}},
        {"kwargs": {"x": list(range(2000))}},
        {"entry_point": "os:system"},
        {"id": "unknown-v0"},
        {"id": "os:unknown-v0"},
        {"vector_entry_point": "os:system"},
        {"kwargs": {"env": ["os:system"]}},
        {"additional_wrappers": [{"name": "AsText", "kwargs": {"phrasebook": "os:system"},
                                  "entry_point": "llm_gym.wrappers.as_text.wrapper:AsText"}]},
        {"additional_wrappers": [{"name": "x", "entry_point": "os:system", "kwargs": {}}]},
        {"additional_wrappers": "none"},
        {"additional_wrappers": [7]},
        {"id": "llm_gym/AsText-v0", "entry_point": "llm_gym.wrappers.as_text.env:AsTextEnv",
         "kwargs": {"env_id": "llm_gym/AsText-v0"}},
        {"id": "llm_gym/AsText-v0", "entry_point": "llm_gym.wrappers.as_text.env:AsTextEnv",
         "kwargs": {"env_id": "os:CartPole-v1"}},
        {"id": "llm_gym/AsText-v0", "entry_point": "llm_gym.wrappers.as_text.env:AsTextEnv",
         "kwargs": {"env_id": "CartPole-v1", "render_mode": "human"}},
    ],
    ids=lambda changes: str(changes)[:50],
)  # fmt: skip
def test_only_allowed_specs_are_built(changes, monkeypatch):
    def explode(*args, **kwargs):
        raise AssertionError("the file's code was run")

    monkeypatch.setattr("os.system", explode)
    with pytest.raises(RecordError):
        rebuild(with_spec(**changes))


def test_records_of_allowed_specs_replay_unchanged():
    for env_id, settings in (
        (GAME, {"low": 1, "high": 50}),
        ("llm_gym/TextToSQL-v0", {}),
        ("llm_gym/AsText-v0", {"env_id": "CartPole-v1"}),
        ("llm_gym/Dataset-v0", {"dataset": [{"prompt": "1 + 1?", "answer": "2"}] * 20}),
    ):
        episode = played(env_id, **settings)
        env = rebuild(episode)
        assert replay(env, episode) == ""
        env.close()


@pytest.mark.parametrize("seed", [-1, 10**30, -(10**400)])
def test_an_impossible_seed_is_refused(seed):
    episode = played()
    episode.seed = seed
    env = rebuild(episode)
    with pytest.raises(RecordError, match="seed must be"):
        replay(env, episode)
    env.close()


def test_a_bad_record_does_not_stop_the_others(tmp_path, capsys):
    good, strange = played(), played()
    strange.options = {"difficulty": "enormous"}
    file = tmp_path / "mixed.jsonl"
    write_episodes(file, [strange, good])
    lines = file.read_text().splitlines()
    deep = '{"schema": 1, "extra": ' + "[" * 5000 + "]" * 5000 + "}"
    file.write_text("\n".join([lines[0], "no record", deep, lines[1]]) + "\n")
    assert main(["replay", str(file)]) == 2
    out = capsys.readouterr().out
    assert "1 the same, 0 different, 3 not played" in out
    assert "line 2" in out
    assert "line 3" in out


def test_escapes_in_a_record_do_not_reach_the_terminal(tmp_path, capsys):
    episode = played()
    episode.env_id = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\nllm-gym: all fine"
    episode.rewards[0] = 0.5
    file = tmp_path / "escapes.jsonl"
    write_episodes(file, [episode])
    main(["replay", str(file)])
    out = capsys.readouterr().out
    assert "\\x1b]0;owned" in out
    assert all(sign == "\n" or sign.isprintable() for sign in out)
    assert len(out.splitlines()) == 2


def test_replay_does_not_add_the_current_folder_to_the_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in os.sys.path if path])
    write_episodes("episodes.jsonl", [played()])
    assert main(["replay", "episodes.jsonl"]) == 0
    assert "" not in os.sys.path


def test_a_decompression_bomb_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 1 << 20)
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(gzip.compress(b'{"schema":' + b" " * (50 << 20)))
    read: list[int] = []
    plain = gzip.GzipFile.readline

    def counted(self, size=-1):
        line = plain(self, size)
        read.append(len(line))
        return line

    monkeypatch.setattr(gzip.GzipFile, "readline", counted)
    with pytest.raises(RecordError, match="at most 1 MiB"):
        list(read_episodes(bomb))
    assert sum(read) <= (1 << 20) + 1


def test_on_bad_gets_the_errors_of_skipped_lines(tmp_path):
    file = tmp_path / "some.jsonl"
    write_episodes(file, [played(), played()])
    first, second = file.read_text().splitlines()
    file.write_text(f"{first}\n[]\n{second}\n")
    errors: list[RecordError] = []
    assert len(list(read_episodes(file, on_bad=errors.append))) == 2
    assert [str(one).partition(": ")[0] for one in errors] == [f"{Path(file)}, line 2"]

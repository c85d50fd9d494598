"""What the exports hand over, without any package of others."""

import json

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.errors import ConfigError
from llm_gym_agents.commands.export import main
from llm_gym_agents.export.episode import Conversation
from llm_gym_agents.export.rows import episode_rows, prompt_rows
from llm_gym_agents.export.tools import tool_definitions

GUESS = "llm_gym/GuessTheNumber-v0"


def test_a_conversation_is_the_episode():
    env = gym.make(GUESS)
    talk = Conversation(GUESS)
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        assert talk.begin(seed) == [{"role": "user", "content": observation}]
        total, done = 0.0, False
        while not done:
            action = env.unwrapped.solver_action()
            observation, reward, terminated, truncated, info = env.step(action)
            total, done = total + reward, terminated or truncated
            assert talk.answer(action) == observation
        assert (talk.reward, talk.done, talk.success) == (total, True, info["success"])
        assert talk.answer("more") == "The episode is over."


def test_rules_that_go_into_a_system_prompt_are_a_message():
    told = Conversation(GUESS, rules="system").begin(0)
    assert [message["role"] for message in told] == ["system", "user"]


def test_rows_respect_split_player_and_success():
    rows = prompt_rows("llm_gym/Sokoban-v0", range(3), split="dev")
    env = gym.make("llm_gym/Sokoban-v0")
    for row in rows:
        assert (
            row["prompt"][-1]["content"] == env.reset(seed=row["seed"], options={"split": "dev"})[0]
        )
    lost = episode_rows(GUESS, range(40), player="random")
    assert {row["success"] for row in lost} == {True, False}
    won = episode_rows(GUESS, range(40), player="random", only_won=True)
    assert won == [row for row in lost if row["success"]]
    with pytest.raises(ConfigError, match="brings no solver along"):
        episode_rows("CartPole-v1", [0])


def test_tool_definitions_are_those_of_the_environment():
    told = tool_definitions(gym.make("llm_gym/TextToSQL-v0"))
    assert [one["function"]["name"] for one in told] == ["sql"]
    assert all(
        one["type"] == "function" and one["function"]["parameters"]["required"] for one in told
    )
    wrapped = llm_gym.ToolUse(gym.make("llm_gym/Echo-v0"), ["calculator"])
    assert [one["function"]["name"] for one in tool_definitions(wrapped)] == ["calculator"]


def test_the_command_writes_what_it_says(tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    for kind, key in {"prompts": "prompt", "episodes": "messages", "verl": "agent_name"}.items():
        assert main([kind, GUESS, "--episodes", "3", "--out", str(out), "--set", "high=5"]) == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(rows) == 3
        assert all(key in row for row in rows)
        assert "3 rows" in capsys.readouterr().out
    assert main(["tools", GUESS]) == 0
    assert json.loads(capsys.readouterr().out)[0]["function"]["name"] == "play"
    assert main(["verifiers", GUESS, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "guess_the_number" / "pyproject.toml").exists()
    with pytest.raises(ConfigError, match=r"must end in \.jsonl or \.parquet"):
        main(["prompts", GUESS, "--episodes", "1", "--out", str(tmp_path / "x.csv")])
    with pytest.raises(ConfigError, match="at least 1"):
        main(["prompts", GUESS, "--episodes", "0"])

"""What the exports hand over, without any package of others."""

import gc
import json
from types import SimpleNamespace

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym_agents.commands.export import main
from llm_gym_agents.export import skyrl
from llm_gym_agents.export.episodes import (
    EpisodeChat,
    TokenEpisode,
    episode_rows,
    prompt_rows,
    tool_definitions,
)
from llm_gym_agents.export.trl import TRLGame, environment_factory
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.tiny import tiny_tokenizer

GUESS = "llm_gym/GuessTheNumber-v0"


def test_a_conversation_follows_the_episode():
    env = gym.make(GUESS)
    talk = EpisodeChat(GUESS)
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


def test_the_reward_of_a_conversation_is_that_of_all_its_turns():
    talk = EpisodeChat(GUESS, penalty=0.25)
    for seed in (0, 1):
        talk.begin(seed)
        for total in (-0.25, -0.5):
            talk.answer("no idea")
            assert talk.reward == total


def test_a_row_of_tokens_is_learned_where_the_model_wrote():
    chat = ChatFormat.from_tokenizer(tiny_tokenizer())
    with EpisodeChat(GUESS) as talk, EpisodeChat(GUESS) as same:
        row = TokenEpisode(talk, chat, seed=3)
        assert row.prompt == chat.opening("", same.begin(3)[0]["content"])
        lost, won = chat.reply("no idea"), chat.reply(talk.env.unwrapped.oracle_action())
        observation = chat.following(lost, same.answer("no idea"))
        for reply in (lost, won):
            assert not row.is_over(10_000)
            row.take(reply, [-0.5] * len(reply))
        assert row.completion == [*lost, *observation, *won]
        assert row.mask == [1] * len(lost) + [0] * len(observation) + [1] * len(won)
        assert row.logprobs == [-0.5 * wrote for wrote in row.mask]
        assert row.ids == row.prompt + row.completion
        assert row.is_over(10_000)
        row = TokenEpisode(talk, chat, seed=3)
        row.take(lost, None)
        assert row.logprobs is None
        assert [row.is_over(len(row.completion) + more) for more in (0, 1)] == [True, False]


def test_the_turn_limit_of_skyrl_ends_an_episode(monkeypatch):
    monkeypatch.setattr(skyrl, "need", lambda *_: SimpleNamespace(BaseTextEnv=object))
    game = skyrl.skyrl_env(GUESS)(extras={"seed": 0, "max_turns": 2})
    for _ in range(2):
        game.init([])
        first, second = (game.step("no idea") for _ in range(2))
        assert (first["done"], len(first["observations"])) == (False, 1)
        assert (second["done"], second["observations"]) == (True, [])


def test_rules_in_a_system_prompt_are_a_message():
    messages = EpisodeChat(GUESS, rules="system").begin(0)
    assert [message["role"] for message in messages] == ["system", "user"]


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
    with pytest.raises(ConfigError, match="solver"):
        episode_rows("CartPole-v1", [0])


def test_tool_definitions_are_those_of_the_environment():
    definitions = tool_definitions(gym.make("llm_gym/TextToSQL-v0"))
    assert [one["function"]["name"] for one in definitions] == ["sql"]
    assert all(
        one["type"] == "function" and one["function"]["parameters"]["required"]
        for one in definitions
    )
    wrapped = llm_gym.ToolUse(gym.make("llm_gym/Echo-v0"), ["calculator"])
    assert [one["function"]["name"] for one in tool_definitions(wrapped)] == ["calculator"]


def test_the_command_writes_rows_tools_and_packages(tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    for kind, key in {"prompts": "prompt", "episodes": "messages", "verl": "agent_name"}.items():
        assert main([kind, GUESS, "--episodes", "3", "--out", str(out), "--set", "high=5"]) == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(rows) == 3
        assert all(key in row for row in rows)
        assert "3 rows" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="--out"):
        main(["prompts", GUESS, "--out", str(tmp_path / "x.csv")])
    assert main(["tools", GUESS]) == 0
    assert json.loads(capsys.readouterr().out)[0]["function"]["name"] == "play"
    for kind, file in {"verifiers": "pyproject.toml", "openenv": "openenv.yaml"}.items():
        assert main([kind, GUESS, "--out", str(tmp_path / kind)]) == 0
        assert (tmp_path / kind / "guess_the_number" / file).exists()


class Counted(gym.Wrapper):
    """Counts how many there are that hold something."""

    opened = closed = 0

    def __init__(self, env):
        super().__init__(env)
        Counted.opened += 1

    def close(self):
        Counted.closed += 1
        super().close()


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(Counted, "opened", 0)
    monkeypatch.setattr(Counted, "closed", 0)
    gym.register("Counted-v0", lambda: Counted(gym.make(GUESS)))
    yield "Counted-v0"
    del gym.registry["Counted-v0"]


def trainer(tokenizer):
    """The part of TRL's trainer that is used: it always replies 1, or fails."""

    def reply(prompts, images, fields, count):
        if len(prompts) == 3:
            raise RuntimeError("out of memory")
        return [tokenizer.encode("1<|im_end|>") for _ in prompts], None

    return SimpleNamespace(
        processing_class=tokenizer, max_completion_length=500, _generate_single_turn=reply
    )


def test_every_environment_that_is_created_is_closed(counted):
    prompt_rows(counted, range(3))
    assert (Counted.opened, Counted.closed) == (1, 1)
    episode_rows(counted, range(3))
    with pytest.raises(ConfigError, match="juggler"):
        episode_rows(counted, [0], player="juggler")
    assert (Counted.opened, Counted.closed) == (3, 3)

    game, rollouts = TRLGame(counted, max_turns=2), trainer(tiny_tokenizer())
    prompts = [row["prompt"] for row in prompt_rows(counted, range(3))]
    assert len(game.rollout_func(prompts[:2], rollouts)["env_reward"]) == 2
    assert (Counted.opened, Counted.closed) == (6, 6)
    with pytest.raises(RuntimeError, match="out of memory"):
        game.rollout_func(prompts, rollouts)
    assert (Counted.opened, Counted.closed) == (9, 9)

    played = environment_factory(counted)()
    played.reset(seed=0)
    del played
    gc.collect()
    assert (Counted.opened, Counted.closed) == (10, 10)

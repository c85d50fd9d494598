"""SkyRL-Gym, verl and datasets take environments of ours; each where it is installed."""

import asyncio
from types import SimpleNamespace

import gymnasium as gym
import pytest

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym_agents.export.episodes import as_dataset, episode_rows, prompt_rows

GUESS = "llm_gym/GuessTheNumber-v0"


def solved(seed):
    """The replies of the solver, and what they earn."""
    env = gym.make(GUESS)
    episode = llm_gym.play_episode(env, lambda _: env.unwrapped.solver_action(), seed)
    return episode.actions, episode.total_reward, episode.states


def test_prompts_and_episodes_become_datasets_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = prompt_rows(GUESS, range(5))
    data = as_dataset(rows)
    data.to_parquet(str(tmp_path / "prompts.parquet"))
    back = datasets.Dataset.from_parquet(str(tmp_path / "prompts.parquet"), cache_dir=str(tmp_path))
    assert list(back) == rows
    episodes = as_dataset(episode_rows(GUESS, range(5)))
    for seed, row in enumerate(episodes):
        actions, reward, _ = solved(seed)
        replies = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        assert (replies, row["reward"], row["seed"]) == (actions, reward, seed)


def test_skyrl_plays_our_episodes_through_its_registry():
    skyrl_gym = pytest.importorskip("skyrl_gym")
    from llm_gym_agents.export.skyrl import skyrl_env

    game = skyrl_env(GUESS)
    skyrl_gym.register(id="guess", entry_point=game)
    for seed in range(3):
        actions, reward, states = solved(seed)
        env = skyrl_gym.make("guess", env_config={}, extras={"seed": seed})
        prompt, _ = env.init([])
        assert prompt == [{"role": "user", "content": states[0]}]
        total = 0.0
        for action in actions:
            step = env.step(action)
            total += step["reward"]
        assert (step["done"], total) == (True, reward)
        assert step["metadata"]["success"] == (reward == 1.0)
        assert env.get_metrics()["turns"] == len(actions)
        env.close()


def test_verl_plays_our_episodes_with_a_scripted_server():
    pytest.importorskip("verl")
    from llm_gym_agents.export.verl import agent_loop, verl_rows
    from tests.agents.tiny import tiny_tokenizer

    tokenizer, (actions, reward, _) = tiny_tokenizer(), solved(2)
    replies = [tokenizer.encode(f"{action}<|im_end|>") for action in actions]

    class Server:
        async def generate(self, request_id, prompt_ids, sampling_params):
            ids = replies.pop(0)
            return SimpleNamespace(token_ids=ids, log_probs=[-1.0] * len(ids))

    loop = agent_loop(GUESS)
    made = loop.__new__(loop)  # the rest of its constructor needs a cluster
    made.tokenizer, made.server_manager = tokenizer, Server()
    made.rollout_config = SimpleNamespace(response_length=10_000)
    (row,) = verl_rows(GUESS, [2])
    output = asyncio.run(made.run({}, **row))
    assert output.reward_score == reward
    assert output.extra_fields["success"] == (reward == 1.0)
    written = [at for at, mask in enumerate(output.response_mask) if mask]
    generated = [output.response_ids[at] for at in written]
    assert generated == [at for action in actions for at in tokenizer.encode(f"{action}<|im_end|>")]
    assert output.num_turns == 2 * len(actions)
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    assert "llm_gym" in _agent_loop_registry


def test_an_export_without_its_package_names_the_install_command():
    from llm_gym_agents.export.episodes import need

    with pytest.raises(ConfigError, match="pip install nothing-at-all"):
        need("nothing_at_all", "nothing-at-all")

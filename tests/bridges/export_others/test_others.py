"""verifiers, SkyRL-Gym, verl and datasets take environments of ours; each where it is installed."""

import asyncio
import importlib.util
import sys
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


def test_prompts_and_episodes_are_data_sets_that_survive_a_file(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = prompt_rows(GUESS, range(5))
    data = as_dataset(rows)
    data.to_parquet(str(tmp_path / "prompts.parquet"))
    back = datasets.Dataset.from_parquet(str(tmp_path / "prompts.parquet"), cache_dir=str(tmp_path))
    assert list(back) == rows
    episodes = as_dataset(episode_rows(GUESS, range(5)))
    for seed, row in enumerate(episodes):
        actions, reward, _ = solved(seed)
        said = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        assert (said, row["reward"], row["seed"]) == (actions, reward, seed)


def test_verifiers_plays_episodes_of_ours():
    vf = pytest.importorskip("verifiers")
    from llm_gym_agents.export.verifiers import load_environment

    env = load_environment(GUESS, num_train=3, num_eval=2)
    assert isinstance(env, vf.MultiTurnEnv)
    assert len(env.get_dataset()) == 3
    assert len(env.get_eval_dataset()) == 2
    for seed in range(3):
        row = env.get_dataset()[seed]
        actions, reward, states = solved(seed)
        assert row["prompt"][-1]["content"] == states[0]
        state = {"info": {"seed": seed}, "trajectory": []}
        asyncio.run(env.setup_state(state))
        for action, said in zip(actions, states[1:], strict=True):
            told = asyncio.run(env.env_response([{"role": "assistant", "content": action}], state))
            assert told == [{"role": "user", "content": said}]
        assert state["final_env_response"] == told
        rubric = env.rubric
        funcs = getattr(rubric, "funcs", None) or rubric.rubrics[0].funcs
        assert asyncio.run(funcs[0](state=state)) == reward


def test_a_package_for_verifiers_has_the_layout_of_its_hub_and_loads(tmp_path):
    vf = pytest.importorskip("verifiers")
    import tomllib

    from llm_gym_agents.export.verifiers import write_package

    root = write_package(tmp_path, "llm_gym/GuessTheNumber-v0", high=5)
    assert sorted(path.name for path in root.iterdir()) == [
        "README.md", "guess_the_number.py", "pyproject.toml",
    ]  # fmt: skip
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["name"] == "guess-the-number"
    spec = importlib.util.spec_from_file_location("guess_the_number", root / "guess_the_number.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["guess_the_number"] = module
    spec.loader.exec_module(module)
    try:
        env = vf.load_environment("guess-the-number", num_train=2, num_eval=1)
    finally:
        del sys.modules["guess_the_number"]
    assert "from 1 to 5" in env.get_dataset()[0]["prompt"][-1]["content"]


def test_skyrl_plays_episodes_of_ours_through_its_registry():
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


def test_verl_plays_episodes_of_ours_with_a_scripted_server():
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
    said = [output.response_ids[at] for at in written]
    assert said == [at for action in actions for at in tokenizer.encode(f"{action}<|im_end|>")]
    assert output.num_turns == 2 * len(actions)
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    assert "llm_gym" in _agent_loop_registry


def test_an_export_without_its_package_says_what_to_install():
    from llm_gym_agents.export.episodes import need

    with pytest.raises(ConfigError, match="pip install nothing-at-all"):
        need("nothing_at_all", "nothing-at-all")

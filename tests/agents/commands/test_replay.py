"""What a run recorded can be played again: ``llm-gym replay`` on its files."""

import gymnasium as gym
import pytest

from llm_gym import cli
from llm_gym.episodes import Trajectory, play_episode, read_episodes, write_episodes
from llm_gym.episodes.record import FIELDS
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import EpisodeTask
from tests.agents.commands.conftest import SMALL
from tests.agents.rollouts.test_pool import play as play_pool
from tests.agents.tiny import save_tiny


def replayed(path, capsys, *flags):
    code = cli.main(["replay", str(path), *flags])
    return code, capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "env_id", ["llm_gym/GuessTheNumber-v0", pytest.param("CartPole-v1", marks=pytest.mark.slow)]
)
def test_replay_reproduces_every_recorded_training_episode(env_id, tmp_path, capsys):
    where = ("--checkpoint.output-dir", str(tmp_path / "run"))
    assert cli.main(["train", env_id, "--smoke", *SMALL, *where]) == 0
    capsys.readouterr()
    files = sorted((tmp_path / "run/episodes").iterdir())
    assert {"after.jsonl", "before.jsonl", "eval-000001.jsonl"} <= {path.name for path in files}
    for path in files:
        count = len(list(read_episodes(path)))
        assert replayed(path, capsys) == (0, f"{count} the same, 0 different, 0 not played")


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_replay_reproduces_every_evaluation_episode(workers, tmp_path, capsys):
    model, out = save_tiny(tmp_path / "model"), tmp_path / "out"
    ids = ["llm_gym/TextGame-v0", "FrozenLake-v1"][: 1 if int(workers) else 2]
    given = ("--model", str(model), "--episodes", "4", "--max-tokens", "4", "--workers", workers)
    for env_id in ids:
        command = ["eval", env_id, *given, "--out", str(out), "--system-prompt", "Be brief."]
        assert cli.main(command) == 0
    capsys.readouterr()
    files = sorted(out.iterdir())
    assert len(files) == len(ids)
    for path in files:
        assert replayed(path, capsys) == (0, "4 the same, 0 different, 0 not played")
        for episode in read_episodes(path):
            assert episode.messages[0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("env_id", ["llm_gym/GuessTheNumber-v0", "llm_gym/Maze-v0", "CartPole-v1"])
@pytest.mark.parametrize("rules", ["system", "observation"])
def test_pool_records_equal_those_of_play_episode(env_id, rules):
    pool = TextEnvPool(env_id, 2, rules=rules)
    tasks = [EpisodeTask(id=at, seed=at, group=at, options=None) for at in range(3)]
    played = play_pool(pool, tasks, steps=120)
    env = pool._rows.envs[0]
    for at in range(3):
        alone = play_episode(env, lambda text: f"reply to {text}", at)
        alone.episode_id = alone.group = at
        assert isinstance(played[at], Trajectory)
        for name in FIELDS:
            assert getattr(played[at], name) == getattr(alone, name), name
        assert alone.env_spec is not None


@pytest.fixture
def crashing():
    gym.register("tests/Crashing-v0", "tests.agents.odd:Crashing")
    yield "tests/Crashing-v0"
    del gym.registry["tests/Crashing-v0"]


def test_replay_reproduces_an_episode_up_to_its_environment_error(crashing, tmp_path, capsys):
    pool = TextEnvPool(crashing, 1)
    episode = play_pool(pool, [EpisodeTask(0, seed=2)], steps=3)[0]
    assert episode.num_turns == 2
    write_episodes(tmp_path / "one.jsonl", [episode])
    code, text = replayed(tmp_path / "one.jsonl", capsys, "--trust")  # it is none of the suite's
    assert (code, text) == (0, "1 the same, 0 different, 0 not played")


def test_replay_compares_env_rewards_where_a_reward_function_replaced_them(tmp_path, capsys):
    env = gym.make("llm_gym/GuessTheNumber-v0")
    episode = play_episode(env, lambda _: "7", seed=3)
    given = episode.rewards
    episode.rewards, episode.extra = [9.0] * len(given), {"env_rewards": given}
    write_episodes(tmp_path / "one.jsonl", [episode])
    assert replayed(tmp_path / "one.jsonl", capsys)[0] == 0
    episode.extra = {"env_rewards": [0.5, *given[1:]]}
    write_episodes(tmp_path / "one.jsonl", [episode])
    assert replayed(tmp_path / "one.jsonl", capsys)[0] == 1

"""Any Gymnasium environment in the pool, the trainer and the commands, without a line of code."""

import json
import os
import shlex
import signal
import sys

import gymnasium as gym
import pytest
import torch

from llm_gym import cli
from llm_gym.core.errors import ConfigError
from llm_gym.episodes import read_episodes
from llm_gym.wrappers import AsText
from llm_gym_agents import ConfigStore
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import EpisodeTask, ReplyStatus
from tests.agents.commands.conftest import SMALL
from tests.agents.tiny import save_tiny

REGISTERS = """
import gymnasium as gym
gym.register("OurPole-v0", "our_poles:Pole", max_episode_steps=4)
from gymnasium.envs.classic_control import CartPoleEnv
class Pole(CartPoleEnv): pass
"""


def play(pool, reply, episodes=3):
    """Play some episodes in which every reply is ``reply``."""
    pool.assign([EpisodeTask(id=at, seed=at) for at in range(episodes)])
    data = pool.reset()
    finished = {}
    while len(finished) < episodes:
        rows = data["observation"].shape[0]
        data["action"] = torch.tensor([pool.texts.add(reply)] * rows)
        data["status"] = torch.full((rows,), int(ReplyStatus.READY))
        _, data = pool.step_and_maybe_reset(data)
        finished |= pool.take_finished()
    return finished


SOURCES = {
    "id": "MountainCar-v0",
    "environment": gym.make("MountainCar-v0"),
    "environment in text": AsText(gym.make("MountainCar-v0")),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_ids_and_environment_objects_are_played_in_text(source):
    episodes = play(TextEnvPool(source, 1), "do nothing", 1)
    for episode in episodes.values():
        assert "A car stands in a valley" in episode.states[0]
        assert episode.total_reward == -200.0
        assert (episode.num_turns, str(episode.stop_reason)) == (200, "max_steps")
        assert not episode.success


def test_settings_reach_the_environment_and_its_text_wrapper():
    pool = TextEnvPool(
        "CartPole-v1", 1, sutton_barto_reward=True, rules="system", penalty=0.5, max_invalid=2
    )
    [episode] = play(pool, "sing", 1).values()
    assert episode.rewards == [-0.5, -1.5]  # giving up costs the pole that a random player drops
    assert episode.reset_info["system_prompt"].startswith("A pole stands")
    assert [info["valid_action"] for info in episode.infos] == [False, False]
    [episode] = play(pool, "push left", 1).values()
    assert episode.rewards[0] == 0.0
    assert episode.rewards[-1] == -1.0


def test_a_pool_refuses_an_unknown_id_or_another_type():
    with pytest.raises(ConfigError, match="Nothing-v0"):
        TextEnvPool("Nothing-v0", 1)
    with pytest.raises(ConfigError, match=r"3 \(int\)"):
        TextEnvPool(3, 1)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "our_poles.py").write_text(REGISTERS)
    before = dict(gym.registry)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget(before)


def forget(before):
    gym.registry.clear()
    gym.registry.update(before)
    sys.modules.pop("our_poles", None)


def test_eval_imports_a_package_and_plays_its_id(here, capsys):
    model = save_tiny(here / "model")
    arguments = ["--model", model, "--episodes", "2", "--max-tokens", "2", "--json", "--out", "x"]
    assert cli.main(["eval", "OurPole-v0", *arguments]) == 2
    assert "OurPole-v0" in capsys.readouterr().err
    assert cli.main(["eval", "OurPole-v0", "--import", "our_poles", *arguments]) == 0
    [result] = json.loads(capsys.readouterr().out)
    assert (result["env"], result["episodes"]) == ("OurPole-v0", 2)
    [first, _] = read_episodes(here / "x/OurPole-v0.jsonl")
    assert first.reset_info["system_prompt"].startswith("A pole stands"), "its class has words"


@pytest.mark.usefixtures("unpainted")
def test_a_stopped_run_on_an_imported_id_names_the_command_that_goes_on(here, capsys, monkeypatch):
    before, usual = dict(gym.registry), PPO.update

    def send_sigterm(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return usual(*args, **kwargs)

    command = ["train", "OurPole-v0", "--import", "our_poles", "--smoke", *SMALL]
    with monkeypatch.context() as patched:
        patched.setattr(PPO, "update", send_sigterm)
        assert cli.main([*command, "--checkpoint.output-dir", "run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if line.startswith("told to stop; go on with: llm-gym ")]
    config = ConfigStore.load(here / "run/config.json")
    assert config.environment.env_id == "our_poles:OurPole-v0", "what it needs is imported again"
    config.training.num_epochs = 2
    config.save(here / "run/config.json")
    forget(before)
    assert cli.main(["resume", "run"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert cli.main(shlex.split(line.partition("llm-gym ")[2])) == 0
    assert "iteration 2/2" in capsys.readouterr().out


def test_train_finds_the_module_of_an_id_beside_the_user(here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(here)])
    assert cli.main(["train", "our_poles:OurPole-v0", "--dry-run"]) == 0
    assert "our_poles:OurPole-v0, at most 4 turns" in capsys.readouterr().out

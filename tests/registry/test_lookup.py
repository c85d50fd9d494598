"""Which environments are listed, whose they are, and how a module brings its own."""

import sys

import gymnasium as gym

from llm_gym.cli import main


def test_list_all_says_whose_they_are(capsys):
    assert main(["list", "--all"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "gymnasium" in lines["CartPole-v1"]
    assert lines["llm_gym/TextGame-v0"].split()[1] == "llm_gym"


def test_import_registers_what_a_module_brings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('MyPole-v0', 'gymnasium.envs.classic_control:CartPoleEnv',"
        " max_episode_steps=2)\n"
    )
    command = ["play", "MyPole-v0", "--player", "random", "--seed", "1"]
    assert main(command) == 2
    assert main([*command, "--import", "my_worlds"]) == 0
    assert "[max_steps after 2 turns, return 2]" in capsys.readouterr().out
    assert main(["play", "my_worlds:MyPole-v0", "--player", "random", "--seed", "1"]) == 0
    assert main(["list", "MyPole", "--all", "--import", "my_worlds"]) == 0
    sys.modules.pop("my_worlds")
    gym.registry.pop("MyPole-v0")

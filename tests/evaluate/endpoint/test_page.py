"""The page about evaluation: its examples of served models, against a stand-in."""

import re
import shlex
from pathlib import Path

from llm_gym import read_episodes
from llm_gym.cli.evaluate import eval_parser
from tests.evaluate.endpoint.stand_in import StandIn

PAGE = (Path(__file__).parents[3] / "docs" / "evaluate.md").read_text()


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S)
    [block] = [block for block in blocks if "episodes=200" in block]
    with StandIn(lambda messages: "look") as server:
        block = block.replace("http://127.0.0.1:8000/v1", server.url)
        exec(compile(block.replace("episodes=200", "episodes=3"), "evaluate.md", "exec"), {})
    assert "llm_gym/TextGame-v0: success 0.0%" in capsys.readouterr().out
    assert len(list(read_episodes("played.jsonl"))) == 3


def test_the_commands_of_the_page_are_understood():
    served = PAGE.split("## Served models")[1]
    commands = re.findall(r"^llm-gym eval (.*)$", served, re.M)
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command.partition(" > ")[0])
        if words[0] == "...":
            words = ["x", "--endpoint", "http://127.0.0.1", "--model", "m", *words[1:]]
        options = eval_parser().parse_args(words)
        assert options.env or options.suite is not None

"""``llm-gym eval --endpoint``, as a person uses it."""

import json
import re
import shlex
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from llm_gym import cli, read_episodes
from llm_gym.cli.evaluate import eval_parser
from tests.evaluate.endpoint.fake_server import FakeServer, status

ROOT = Path(__file__).parents[3]
GUESS = "llm_gym/GuessTheNumber-v0"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, path = dict(gym.registry), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    gym.registry.clear()
    gym.registry.update(before)


def run(server, *arguments):
    return cli.main(["eval", *arguments, "--endpoint", server.url, "--model", "m"])


def test_eval_prints_the_figures_as_json(server, here, capsys):
    arguments = ["--episodes", "3", "--seed", "4", "--json", "--out", "played"]
    assert run(server, GUESS, *arguments) == 0
    [result] = json.loads(capsys.readouterr().out)
    turns = result["requests"]
    assert (result["env"], result["episodes"]) == (GUESS, 3)
    assert (result["tokens_in"], result["tokens_out"]) == (10 * turns, 3 * turns)
    episodes = list(read_episodes(here / "played/llm_gym_GuessTheNumber-v0.jsonl"))
    assert [episode.seed for episode in episodes] == [4, 5, 6]
    assert result["turns"] == turns / 3


def test_eval_prints_the_figures_as_a_table(server, here, capsys):
    assert run(server, "--suite", "GuessTheNumber", "--episodes", "2") == 0
    header, *rows, scale = capsys.readouterr().out.splitlines()
    columns = "environment success 95 % scale return turns unusable cut empty tokens/s read written"
    assert header.split() == columns.split()
    assert [row.split()[0] for row in rows] == [
        "llm_gym/GuessTheNumber-v0",
        "llm_gym/GuessTheNumberEasy-v0",
        "llm_gym/GuessTheNumberHard-v0",
    ]
    assert len({len(line) for line in (header, *rows)}) == 1, "columns stand below each other"
    assert scale.startswith("scale: 0 is a random player")


def test_every_option_reaches_the_server(server, here, capsys):
    options = ["--max-tokens", "9", "--temperature", "0.5", "--top-p", "0.75", "--max-turns", "2"]
    options += ["--context", "observation", "--system-prompt", "Be brief.", "--num-envs", "1"]
    options += ["--stop", "#", "--template-set", "enable_thinking=false"]
    options += ["--body", "top_k=3", "--body", "seed=null", "--set", "high=30", "--episodes", "1"]
    server.model = lambda messages: "31"
    assert run(server, GUESS, *options) == 0
    [_, second] = server.requests
    messages = second.pop("messages")
    assert second == {
        "model": "m", "max_tokens": 9, "temperature": 0.5, "top_p": 0.75, "top_k": 3,
        "stop": ["#"], "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == "Be brief."
    assert "from 1 to 30" in messages[1]["content"]


def test_a_class_and_an_id_of_another_package_are_played(server, here, capsys):
    (here / "ours_here.py").write_text(
        "import gymnasium as gym\n"
        "from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv\n"
        "class Ours(GuessTheNumberEnv): pass\n"
        "gym.register(id='OurGuess-v0', entry_point=GuessTheNumberEnv)\n"
    )
    assert run(server, "ours_here:Ours", "--episodes", "2", "--set", "high=5", "--json") == 0
    assert run(server, "OurGuess-v0", "--import", "ours_here", "--episodes", "1", "--json") == 0
    assert run(server, "ours_here:OurGuess-v0", "--episodes", "1", "--json") == 0
    printed = capsys.readouterr().out.replace("]\n[", ",")
    names = ["ours_here:Ours", "OurGuess-v0", "OurGuess-v0"]
    assert [result["env"] for result in json.loads(printed)] == names
    assert {request["messages"][0]["role"] for request in server.requests} == {"system"}
    assert "from 1 to 5" in server.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm_gym/Ges-v0"], "llm_gym/Ges-v0"), (["nowhere:Env"], "nowhere"), ([], "--suite"),
        ([GUESS, "--set", "hihg=3"], "hihg"), ([GUESS, "--body", "x"], "--body"),
        ([GUESS, "--key-env", "NOT_SET"], "key"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_sentence(server, here, capsys, arguments, message):
    assert run(server, *arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err.splitlines()[-1]
    assert printed.out == ""
    assert server.requests == []


def test_a_failing_server_is_one_sentence_after_the_figures(server, here, capsys):
    server.faults += [None] * 12 + [status(400, {"error": "no more"})]
    assert run(server, GUESS, "--num-envs", "1", "--json") == 2
    printed = capsys.readouterr()
    assert 1 <= json.loads(printed.out)[0]["episodes"] < 100
    assert printed.err.splitlines()[-1].endswith("answered 400: no more")


def test_without_httpx_one_sentence_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "httpx", None)
    code = cli.main(["eval", GUESS, "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"])
    error = capsys.readouterr().err
    assert code == 2
    assert "endpoint" in error.splitlines()[-1]
    assert "Traceback" not in error


PAGE = (Path(__file__).parents[3] / "docs" / "evaluate.md").read_text()


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S)
    [block] = [block for block in blocks if "episodes=200" in block]
    with FakeServer(lambda messages: "look") as server:
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

"""``llm-gym check parser``: recorded replies against a parser."""

import json

import gymnasium as gym
import pytest

from llm_gym.cli import main
from llm_gym.episodes import play_episode, write_episodes

GOOD = 'Action: finish\nAction Input: {"answer": "4"}'


@pytest.fixture
def outputs(tmp_path):
    def write(*lines):
        path = tmp_path / "outputs.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    return write


def test_replies_are_counted_and_problems_shown(outputs, capsys):
    path = outputs(
        GOOD, {"text": "Final Answer: 4"}, {"output": "hm"}, "Action: a\nAction Input: {"
    )
    assert main(["check", "parser", path, "--parser", "react"]) == 1
    out = capsys.readouterr().out
    assert "4 replies read as react" in out
    assert "calls       1   25.0%" in out
    assert "problems       2   50.0%" in out
    assert "line 3: I found neither an action nor an answer" in out
    assert "line 4: I could not read your tool call: the JSON is cut off" in out


def test_replies_without_a_problem_pass(outputs):
    assert main(["check", "parser", outputs(GOOD, "Final Answer: 4"), "--parser", "react"]) == 0


def test_calls_are_checked_against_tools(outputs, capsys):
    path = outputs(GOOD, GOOD.replace("answer", "reply"), GOOD.replace("finish", "end"))
    assert main(["check", "parser", path, "--parser", "react"]) == 0
    assert main(["check", "parser", path, "--parser", "react", "--tool", "finish"]) == 1
    out = capsys.readouterr().out
    assert "line 2: finish: answer is missing" in out
    assert "line 3: There is no tool 'end'" in out


def test_the_report_can_be_json(outputs, capsys):
    path = outputs(*["hm"] * 9, GOOD)
    assert main(["check", "parser", path, "--parser", "react", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["calls"], report["answers"], report["problems"]) == (1, 0, 9)
    assert report["tools"] == {"finish": 1}
    assert [one["line"] for one in report["shown"]] == [1, 2, 3, 4, 5]


def test_the_field_of_the_reply_may_be_named(outputs, capsys):
    path = outputs({"text": "prompt", "said": GOOD})
    assert main(["check", "parser", path, "--parser", "react", "--field", "said"]) == 0
    assert main(["check", "parser", path, "--parser", "react", "--field", "nothing"]) == 2
    assert "--field" in capsys.readouterr().err


def test_episode_records_are_read_turn_by_turn(tmp_path, capsys):
    path = tmp_path / "episodes.jsonl"
    env = gym.make("llm_gym/GuessTheNumber-v0", action_format="react")
    episode = play_episode(env, lambda _: "Thought: low.\nAction: 1", seed=3)
    write_episodes(path, [episode])
    assert main(["check", "parser", str(path), "--parser", "react"]) == 0
    assert f"{episode.num_turns} replies" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "why"),
    [("oops\n", "line 1: this is not JSON"), ("\n[1]\n", "line 2: there is no reply")],
)
def test_a_file_of_something_else_is_refused_with_its_line(tmp_path, capsys, text, why):
    path = tmp_path / "outputs.jsonl"
    path.write_text(text)
    assert main(["check", "parser", str(path)]) == 2
    assert why in capsys.readouterr().err
    assert main(["check", "parser", str(tmp_path / "nothing.jsonl")]) == 2

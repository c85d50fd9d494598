"""The page "Bring your own environment": every example, as printed."""

import re
from pathlib import Path

import pytest

from llm_gym.as_text.phrasebooks import book

PAGE = (Path(__file__).parents[2] / "docs" / "bring_your_own.md").read_text()
BLOCKS = re.findall(r"^```(?:py|python)\n(.*?)^```", PAGE, re.M | re.S)
WAYS = ("TextEnv)", "AsText(gym.make", "gym.Env)", "BaseEnvironment)", "minigrid:")


def test_there_are_five_ways_of_about_ten_lines():
    for way, block in zip(WAYS, BLOCKS, strict=False):
        assert way in block
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 15  # a class with its five methods


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # minigrid's own
def test_every_example_runs_and_shows_something(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "_BOOKS", dict(book._BOOKS))
    names = {"__name__": "__docs__"}
    shown = []
    for block in BLOCKS:
        if "minigrid" in block and not _installed("minigrid"):
            continue
        exec(compile(block, "bring_your_own.md", "exec"), names)
        shown.append(capsys.readouterr().out)
    assert all(text.strip() for text in shown)
    assert "Answer with twice the number." in shown[0]
    assert shown[1].rstrip().endswith("You reach the goal. 1 True")
    assert shown[2].startswith("What is the opposite of ")
    assert "'It opens.', 1.0, True, False" in shown[3]
    assert "You are on field 4." in shown[-3]
    assert shown[-2].startswith("Height ")


def test_the_example_of_a_third_party_id_runs(capsys):
    pytest.importorskip("minigrid")
    block = next(block for block in BLOCKS if "minigrid" in block)
    names = {"__name__": "__docs__"}
    exec(compile(block, "bring_your_own.md", "exec"), names)
    assert "Mission: go to" in capsys.readouterr().out
    assert names["terminated"]
    assert names["reward"] > 0


def _installed(package):
    try:
        __import__(package)
    except ImportError:
        return False
    return True

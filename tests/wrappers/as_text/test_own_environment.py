"""The page about your own environment: what its examples show."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "own_environment.md").read_text()
BLOCKS = re.findall(r"^```(?:py|python)\n(.*?)^```", PAGE, re.M | re.S)
WAYS = {
    "class DoubleIt": "Answer with twice the number.",
    'action_format="tag"': "You reach the goal. 1 True",
    "class Opposites": "What is the opposite of ",
    "class Door": "'It opens.', 1.0, True, False",
    "minigrid:": "Mission: go to",
}
"""Part of an example, and part of what it prints."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # minigrid's own
def test_a_way_is_about_ten_lines_and_shows_what_it_says(way, capsys):
    if way == "minigrid:":
        pytest.importorskip("minigrid")
    (block,) = [block for block in BLOCKS if way in block]
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    names = {"__name__": "__docs__"}
    exec(compile(block, "own_environment.md", "exec"), names)
    assert WAYS[way] in capsys.readouterr().out
    if way == "minigrid:":
        assert names["terminated"]
        assert names["reward"] > 0

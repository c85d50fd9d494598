"""Natural replies: how many are read as meant, misread, and rightly refused."""

import pytest

from tests.reading import natural


@pytest.mark.parametrize("name", ["tuned", "held_out", "third"])
def test_natural_replies_are_read_as_meant_or_refused(name):
    shares = natural.shares(name)
    assert shares["as_meant"] >= 0.96
    assert shares["misread"] <= 0.003
    assert shares["rightly_refused"] >= 0.96


@pytest.mark.parametrize(
    ("game", "inside", "move"),
    [
        ("TowerOfHanoi", r"A\ B", "A B"),
        ("TowerOfHanoi", r"A \to C", "A C"),
        ("Mastermind", r"1\,2\,3\,4", "1 2 3 4"),
        ("Minesweeper", r"\text{reveal } 4\ 4", "reveal 4 4"),
        ("Maze", r"\mathrm{up}", "up"),
    ],
)
def test_latex_in_a_box_is_read(game, inside, move):
    reply = natural.NaturalReply(game, move, rf"\boxed{{{inside}}}")
    assert natural.judge_reply(reply)[0] == "right"

"""Natural replies: how many are read as meant, misread, and rightly refused."""

import pytest

from tests.reading import natural


@pytest.mark.parametrize("name", ["tuned", "held_out"])
def test_natural_replies_are_read_as_meant_or_refused(name):
    shares = natural.shares(name)
    assert shares["as_meant"] >= 0.96
    assert shares["misread"] <= 0.003
    assert shares["rightly_refused"] >= 0.96


@pytest.mark.parametrize("piece", ["1=", "1+", "go ", "up,", "1 2 ", "not ", "\n", "a b "])
def test_a_sentence_without_end_is_read_in_part_only(piece):
    """Every finder is asked for no more than the last characters, and few moves are weighed."""
    from llm_gym.reading import moves

    asked = []

    def find(text):
        asked.append(len(text))
        return moves.find_numbers(text)

    moves.judge(piece * (200_000 // len(piece)), find)
    assert max(asked, default=0) <= 600
    assert sum(asked) <= moves.WINDOW


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

"""Natural replies, each with the move it means: read as meant, misread, or rightly refused.

``natural_tuned.txt`` was used while the reader was written; ``natural_held_out.txt`` was not looked
at. ``natural_third.txt`` was written after it: 61 of 66 were read as meant, none misread, and 38 of
38 refused; three more are read since then. A line is ``move | reply``, under the name of a game;
``-`` stands for "no move".
"""

from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401  (registers the environments)


def natural_replies(name):
    """Yield game, meant move and reply of the set ``name``."""
    game = ""
    for line in (Path(__file__).parent / f"natural_{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            game = line[2:]
        elif line:
            move, _, text = line.partition(" | ")
            text = text.replace("\\n", "\n").replace("\\\\", "\\")
            yield game, None if move == "-" else move, text


def judged(game, move, text):
    """Return how a reply in the first state of a game is read: right, wrong, refused or played."""
    env = gym.make(f"llm_gym/{game}-v0").unwrapped
    env.reset(seed=0)
    start = env.snapshot()
    did = env.step(text)
    if not did[4]["valid_action"]:
        return "right" if move is None else "refused"
    if move is None:
        return "played"
    env.restore(start)
    return "right" if env.step(move)[:3] == did[:3] else "wrong"


@pytest.mark.parametrize("name", ["tuned", "held_out", "third"])
def test_natural_replies_are_read_as_meant_or_refused(name):
    moves, others = Counter(), Counter()
    for reply in natural_replies(name):
        (others if reply[1] is None else moves)[judged(*reply)] += 1
    assert moves["right"] >= 0.96 * moves.total()
    assert moves["wrong"] <= 0.003 * moves.total()
    assert others["right"] >= 0.96 * others.total()


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
    assert judged(game, move, rf"\boxed{{{inside}}}") == "right"

"""What both board games share: who begins, and what is no move."""

import pytest

from tests.envs.playing import game

BOTH = pytest.mark.parametrize("name", ["ConnectFour", "TicTacToe"])


@BOTH
@pytest.mark.parametrize(
    ("begins", "marks"), [("player", {"X"}), ("opponent", {"O"}), ("random", {"X", "O"})]
)
def test_who_begins_is_a_setting_and_x_moves_first(name, begins, marks):
    env, seen = game(name, begins=begins), set()
    for seed in range(40):
        text, _ = env.reset(seed=seed)
        board, _, mark = text.split("\n\n")[1].partition("You are ")
        seen.add(mark[0])
        assert (board.count("X"), board.count("O")) == ((0, 0) if mark[0] == "X" else (1, 0))
    assert seen == marks


@BOTH
@pytest.mark.parametrize("move", ["0", "10", "-1", "4 4", "4,5", "4" * 300, "[", "column", "b2"])
def test_anything_else_is_answered_and_changes_nothing(name, move):
    env = game(name)
    env.reset(seed=0)
    before = env._own, env._foe, bytes(env._board)
    text, *_, info = env.step(move)
    assert text.startswith("Your move must be the number of a ")
    assert not info["valid_action"]
    assert (env._own, env._foe, bytes(env._board)) == before

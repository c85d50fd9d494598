"""TicTacToe: the rules, the opponent, and chances that can be counted by hand."""

from functools import cache

import pytest

from llm_gym.envs.board_games.tic_tac_toe import FULL, WON, good_moves, score, win_chance
from tests.envs.board_games import test_connect_four as connect_four
from tests.envs.playing import episodes, final_info, start_game


def bits(squares):
    return sum(1 << int(square) - 1 for square in squares)


def started(own, foe, **kwargs):
    """Return an environment whose player, to move, has the squares ``own``: digits from 1."""
    env = start_game("TicTacToe", begins="player", **{"opponent": 1.0, **kwargs})
    connect_four.put(env, bits(own), bits(foe))
    return env


LINES = ["123", "456", "789", "147", "258", "369", "159", "357"]


def test_nothing_but_the_eight_lines_wins():
    lines = [bits(line) for line in LINES]
    for squares in range(FULL + 1):
        assert WON[squares] == any(squares & line == line for line in lines)


def test_the_perfect_opponent_never_loses():
    for seed, env in enumerate(episodes("TicTacToe", 100, opponent=1.0)):
        assert env.oracle_value() == 0.0
        ends = {"lost", "drawn"} if seed % 2 else {"drawn"}
        assert final_info(env, "random" if seed % 2 else "oracle")["stop_reason"] in ends


def plain_minimax(own, foe):
    """The result for the side to move (1, 0 or -1), without depth and without bits."""
    lines = [set(line) for line in LINES]

    @cache
    def value(mine, theirs):
        if any(line <= set(theirs) for line in lines):
            return -1
        free = [square for square in "123456789" if square not in mine + theirs]
        return max((-value(theirs, "".join(sorted(mine + square))) for square in free), default=0)

    return value(own, foe)


@pytest.mark.parametrize(
    ("own", "foe"),
    [("", ""), ("1", "5"), ("1", "2"), ("15", "29"), ("15", "39"), ("12", "45"), ("2", "13")],
)
def test_the_score_is_that_of_a_plain_minimax(own, foe):
    found = score(bits(own), bits(foe))
    assert (found > 0) - (found < 0) == plain_minimax(own, foe)


def test_a_good_player_wins_now_rather_than_later():
    assert good_moves(bits("15"), bits("23")) == (8,)  # 9 at once, not the fork at 4
    assert good_moves(bits("5"), bits("12")) == (2,)


def test_chances_are_the_known_ones_and_fall_with_strength():
    # One square completes the line: certain, whatever the opponent is.
    assert win_chance(bits("12"), bits("45"), 5, 1.0) == 1.0
    # The corner is the best beginning against a random opponent: 191/192 by full counting.
    assert win_chance(0, 0, 9, 0.0) == pytest.approx(191 / 192)
    # One turn left wins only where a line is open.
    assert win_chance(bits("12"), bits("45"), 1, 0.0) == 1.0
    assert win_chance(bits("1"), bits("5"), 1, 0.0) == 0.0
    chances = [win_chance(0, 0, 9, strength) for strength in (0.0, 0.3, 0.9, 1.0)]
    assert chances == sorted(set(chances), reverse=True)


def test_the_potential_is_the_chance_to_win():
    env = start_game("TicTacToe", opponent=0.0, begins="player", shaping=True)
    assert env.potential() == env.oracle_value() > 0.99
    env._own, env._foe = bits("12"), bits("45")
    assert env.potential() == 1.0


@pytest.mark.parametrize("name", ["ConnectFour", "TicTacToe"])
@pytest.mark.parametrize(
    ("begins", "marks"), [("player", {"X"}), ("opponent", {"O"}), ("random", {"X", "O"})]
)
def test_who_begins_is_a_setting_and_x_moves_first(name, begins, marks):
    seen = set()
    for env in episodes(name, 40, begins=begins):
        board, _, mark = env.describe().partition("You are ")
        seen.add(mark[0])
        assert (board.count("X"), board.count("O")) == ((0, 0) if mark[0] == "X" else (1, 0))
    assert seen == marks


@pytest.mark.parametrize(
    ("make", "move", "answer", "others"),
    [
        (lambda strength: started("1", "5", opponent=strength), "2", 3, 6),
        (lambda strength: connect_four.started("X XO.O", opponent=strength), "1", 1, 7),
    ],
)
def test_the_strength_is_how_often_a_best_move_is_played(make, move, answer, others):
    for strength in (0.0, 0.4, 1.0):
        env, found = make(strength), 0
        saved, rng = env.snapshot(), env.np_random
        for _ in range(500):
            env.restore(saved)
            env.np_random = rng
            found += f"I play {answer}" in env.step(move)[0]
        share = strength + (1 - strength) / others
        assert found / 500 == pytest.approx(share, abs=0.08 * (strength < 1))

"""ConnectFour: the rules, the search against one without bits, and the oracle's promise."""

from functools import cache

import numpy as np
import pytest

from llm_gym.envs.board_games.connect_four import (
    BOARD,
    COLUMN,
    completing,
    has_four,
    landings,
    look_ahead,
)
from tests.envs.playing import episodes, final_info, start_game


def sides(picture):
    """Return the discs of X and of O in ``picture``: rows from the top, the lowest last."""
    rows = picture.split()[::-1]
    found = {"X": 0, "O": 0, ".": 0}
    for row, line in enumerate(rows):
        for column, mark in enumerate(line.ljust(7, ".")):
            found[mark] |= 1 << 7 * column + row
    return found["X"], found["O"]


def started(picture, **kwargs):
    """Return an environment whose player has the X of ``picture`` and is to move."""
    env = start_game("ConnectFour", begins="player", **{"opponent": 1.0, **kwargs})
    put(env, *sides(picture))
    return env


def put(env, own, foe):
    """Put the player's marks and the opponent's on the board of a game that has just begun."""
    env._own, env._foe = own, foe
    for bits, mark in ((own, "X"), (foe, "O")):
        for bit in filter(bits.__and__, env.squares):
            env._draw(bit, mark)


def test_a_line_does_not_wrap_from_one_column_into_the_next():
    # The two top squares of a column and the two bottom ones of its neighbour are no line.
    top = COLUMN[0] & ~0b1111
    bottom = COLUMN[1] & (0b11 << 7)
    assert not has_four(top | bottom)
    # Nor are three of a row at one edge and one at the other edge, a row higher.
    assert not has_four((1 << 28) | (1 << 35) | (1 << 42) | (1 << 1))


def grid(bits):
    return {
        (column, row) for column in range(7) for row in range(6) if bits >> 7 * column + row & 1
    }


def random_position(rng, discs):
    own = foe = 0
    for _ in range(discs):
        ready = landings(own | foe)
        moves = [ready & column for column in COLUMN if ready & column]
        own, foe = foe, own | moves[int(rng.integers(len(moves)))]
    return own, foe


def four_without_bits(cells):
    return any(
        all((x + i * dx, y + i * dy) in cells for i in range(4))
        for x, y in cells
        for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1))
    )


def test_bitboards_agree_with_a_plain_search():
    rng, fours = np.random.default_rng(0), 0
    for _ in range(120):
        own, foe = random_position(rng, 24)
        cells = grid(own)
        fours += four_without_bits(cells)
        assert has_four(own) == four_without_bits(cells)
        if not has_four(own):
            plain = {
                cell
                for cell in grid(BOARD) - cells - grid(foe)
                if four_without_bits(cells | {cell})
            }
            assert grid(completing(own, own | foe)) == plain
    assert fours > 3


def test_a_forced_win_has_an_oracle_value_of_one():
    assert started("...OO ...XX").oracle_value() == 1.0
    assert started("").oracle_value() < 1.0


def test_a_full_board_is_a_draw_and_no_win():
    rng = np.random.default_rng(0)
    for env in episodes("ConnectFour", 2000, opponent=1.0):
        info = final_info(env, "oracle" if rng.random() < 0.5 else "solver")
        if info["stop_reason"] == "drawn":
            break
    assert (info["stop_reason"], info["success"]) == ("drawn", False)
    assert (env._own | env._foe) == BOARD
    assert "The board is full: a draw." in env._base_observations[-1]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    ("picture", "best", "forced"),
    [
        ("OOO XXX", {4}, True),  # win now
        ("O O OX.X", {1}, False),  # block the column
        ("...OO ...XX", {3, 6}, True),  # two in the bottom row become a three with two ends
    ],
)
def test_the_search_wins_blocks_and_prepares(picture, best, forced, depth):
    found, wins = look_ahead(*sides(picture), depth)
    assert {column + 1 for column in found} <= best
    assert wins == forced


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_good_player_does_not_hand_over_the_square_above(depth):
    own, foe = sides("....OOO ....XOX")
    assert completing(foe, own | foe) == 1 << 22  # the second square of column 4
    assert 3 not in look_ahead(own, foe, depth)[0]


@cache
def forced(own, foe, depth):
    """Win (1), loss (-1) or neither within ``depth`` moves, by trying everything."""
    if has_four(foe):
        return -1
    ready = landings(own | foe)
    best = -1 if ready and depth else 0
    for column in COLUMN:
        if best < 1 and depth and (bit := ready & column):
            best = max(best, -forced(foe, own | bit, depth - 1))
    return best


def test_forced_wins_agree_with_an_exhaustive_search():
    rng, claims = np.random.default_rng(1), []
    for _ in range(80):
        own, foe = random_position(rng, 14)
        if has_four(own) or has_four(foe):
            continue
        claims.append(look_ahead(own, foe, 1)[1])
        if claims[-1]:  # a chain of forced moves goes deep
            assert any(forced(own, foe, depth) == 1 for depth in (1, 3, 5, 7, 9))
        else:
            assert forced(own, foe, 3) < 1
    assert 10 < sum(claims) < len(claims) - 10

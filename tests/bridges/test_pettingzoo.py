"""PettingZoo's games from one seat, with the real package: ``make test-bridges``."""

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.core.outcome import StopReason

pytest.importorskip("pettingzoo.classic.tictactoe_v3", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")


def make(game="tictactoe_v3", **settings):
    module = f"pettingzoo.classic.{game}"
    return gym.make("llm_gym/PettingZoo-v0", env_id=module, **settings).unwrapped


def scripted(*actions):
    waiting = list(actions)
    return lambda observation, mask, space: waiting.pop(0)


def lowest(observation, mask, space):
    return int(np.flatnonzero(mask)[0])


def test_a_game_is_won_lost_and_drawn():
    won = make(opponent=scripted(3, 4))
    won.reset(seed=0)
    *_, (_, reward, terminated, _, info) = [won.step(move) for move in "012"]
    assert (reward, terminated, info["stop_reason"]) == (1, True, StopReason.WON)
    lost = make(opponent=scripted(3, 4, 5))
    lost.reset(seed=0)
    *_, (_, reward, terminated, _, info) = [lost.step(move) for move in "018"]
    assert (reward, terminated, info["success"]) == (-1, True, False)
    drawn = make(opponent=scripted(1, 4, 5, 6))
    drawn.reset(seed=0)
    *_, (_, reward, terminated, _, info) = [drawn.step(move) for move in "02378"]
    assert (reward, terminated, info["success"]) == (0, True, False)


def test_the_board_is_drawn_from_the_seat():
    env = make("connect_four_v3", seat="player_1", opponent=lowest, rules="system")
    text, _ = env.reset(seed=0)
    assert text.splitlines()[-2] == "O . . . . . ."
    text, *_ = env.step("I drop mine into column 3.")
    assert text.splitlines()[-2] == "O . . X . . ."
    assert text.splitlines()[-3] == "O . . . . . ."


def test_an_illegal_move_is_refused_and_does_not_end_the_game():
    env = make(opponent=scripted(1, 2, 5))
    env.reset(seed=0)
    env.step("0")
    _, _, terminated, _, info = env.step("1")
    assert not info["valid_action"]
    assert not terminated


def test_an_opponent_without_a_legal_move_truncates_the_game():
    env = make(opponent=lambda observation, mask, space: 0)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("0")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert info["stop_reason"] is StopReason.ERROR
    assert "no legal move" in info["reason"]


def test_an_opponent_by_name():
    env = make(opponent="tests.bridges.test_pettingzoo:lowest")
    env.reset(seed=0)
    env.step("4")
    assert env.seat.game.unwrapped.board.squares[0] != 0

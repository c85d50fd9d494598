"""TextArena through the bridge, with the real package: ``make test-bridges``."""

import copy
import threading
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.bridges.textarena import random_reply
from llm_gym.core.errors import ConfigError, WorkerError
from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.endpoint import http
from llm_gym.evaluate.endpoint.client import EndpointError
from tests.evaluate.endpoint.fake_server import FakeServer, status
from tests.processes import run_python

pytest.importorskip("textarena")
pytestmark = pytest.mark.filterwarnings("ignore")


def make(env_id, **settings):
    return gym.make("llm_gym/TextArena-v0", env_id=env_id, **settings).unwrapped


def replies(*texts):
    """An opponent that plays these in turn."""
    waiting = list(texts)
    return lambda _: waiting.pop(0)


def test_a_game_is_won_with_what_its_state_hides():
    env = make("GuessTheNumber-v0")
    for seed in range(5):
        env.reset(seed=seed)
        secret = env._game.state.game_state["game_number"]
        _, reward, terminated, _, info = env.step(f"<think>[99]</think>I say [{secret}]")
        assert (reward, terminated, info["success"]) == (1.0, True, True)
        assert info["stop_reason"] is StopReason.WON


def test_an_observation_repeats_neither_the_last_episode_nor_the_move():
    env = make("GuessTheNumber-v0")
    first, _ = env.reset(seed=0)
    observation, *_ = env.step("[unheard of]")
    assert "unheard" not in observation
    again, _ = env.reset(seed=0)
    assert again == first


def test_an_unusable_move_is_answered_and_the_second_ends_the_game():
    env = make("GuessTheNumber-v0")
    env.reset(seed=0)
    text, _, terminated, _, info = env.step("no idea")
    assert not info["valid_action"]
    assert "invalid move" in text
    assert not terminated
    _, _, terminated, _, info = env.step("no idea")
    assert terminated
    assert info["stop_reason"] is StopReason.INVALID


def test_a_scripted_opponent_is_beaten_beats_and_draws():
    won = make("TicTacToe-v0", opponent=replies("[3]", "[4]"))
    won.reset(seed=0)
    assert [won.step(move)[1] for move in ("[0]", "[1]", "[2]")] == [0.0, 0.0, 1.0]
    lost = make("TicTacToe-v0", opponent=replies("[3]", "[4]", "[5]"))
    lost.reset(seed=0)
    *_, (_, reward, terminated, _, info) = [lost.step(move) for move in ("[0]", "[1]", "[8]")]
    assert (reward, terminated, info["stop_reason"]) == (-1.0, True, StopReason.LOST)
    assert info["foreign"]["rewards"] == [-1, 1]
    drawn = make("TicTacToe-v0", opponent=replies("[1]", "[3]", "[5]", "[6]"))
    drawn.reset(seed=0)
    *_, (_, reward, _, _, info) = [drawn.step(f"[{cell}]") for cell in (0, 2, 4, 7, 8)]
    assert (reward, info["stop_reason"]) in [(0.0, StopReason.DRAWN), (1.0, StopReason.WON)]


@pytest.mark.parametrize(
    ("env_id", "move"),
    [
        ("TicTacToe-v0", "[4]"), ("ColonelBlotto-v0", "[A7 B7 C6]"), ("Nim-v0", "[0 1]"),
        ("IteratedTwoThirdsAverage-v0", "[33]"), ("ConnectFour-v0", "[col 3]"),
    ],
)  # fmt: skip
def test_an_opponent_without_a_legal_move_truncates_the_game(env_id, move):
    calls = []
    env = make(env_id, opponent=lambda text: calls.append(text) or "[nonsense]")
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(move)
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert info["stop_reason"] is StopReason.ERROR
    assert "no legal move" in info["foreign"]["reason"]
    assert len(calls) == 5


def test_an_opponents_illegal_move_is_retried_and_our_own_still_counts():
    env = make("TicTacToe-v0", opponent=replies("[no]", "[0]", "[1]"))
    env.reset(seed=0)
    assert "[Player 1] [0]" in env.step("[4]")[0]
    env.step("[4]")
    assert env.step("[4]")[4]["stop_reason"] is StopReason.INVALID


def test_a_random_opponent_needs_a_list_of_legal_moves():
    for env_id in ("ColonelBlotto-v0", "Nim-v0", "Tak-v0", "IteratedTwoThirdsAverage-v0"):
        with pytest.raises(ConfigError, match="opponent='random'"):
            make(env_id).reset(seed=0)
    env = make("TicTacToe-v0")
    for seed in range(10):
        _, info = env.reset(seed=seed)
        while info["stop_reason"] is StopReason.PLAYING:
            *_, info = env.step(env.random_action())
        assert info["stop_reason"] in (StopReason.WON, StopReason.LOST, StopReason.DRAWN)


def test_giving_up_is_a_loss_and_random_moves_fill_in_placeholders():
    env = make("TicTacToe-v0", action_format="tag", max_invalid=2)
    env.reset(seed=0)
    assert [env.step("no tag")[1] for _ in range(2)] == [0.0, -1.0]
    rng = np.random.default_rng(0)
    for text in ("[Raise N]", "[idx]", "[Offer: $X]", "'[row col]' or '[Bet amount]'"):
        assert random_reply(f"Write {text}.", rng)[1:-1].isdecimal()


def test_the_second_seat_sees_the_first_move():
    env = make("TicTacToe-v0", seat=1, opponent=replies("[4]", "[0]"))
    text, _ = env.reset(seed=0)
    assert "You are Player 1" in text
    assert "[Player 0] [4]" in text


def test_an_opponent_by_name_and_one_that_fails():
    env = make("TicTacToe-v0", opponent="tests.bridges.test_textarena:first_free")
    env.reset(seed=0)
    text, *_ = env.step("[8]")
    assert "[Player 1] [0]" in text

    def dies(_):
        raise OSError("the line is dead")

    broken = make("TicTacToe-v0", opponent=dies)
    broken.reset(seed=0)
    with pytest.raises(WorkerError, match="dead"):
        broken.step("[4]")


def first_free(text):
    return text.rpartition("Available Moves: ")[2].split(",")[0].strip("' \n")


def test_a_served_model_plays_the_other_seat(chat_server):
    chat_server.model = lambda messages: first_free(messages[-1]["content"])
    env = make("TicTacToe-v0", opponent={"url": chat_server.url, "model": "small"})
    env.reset(seed=0)
    text, *_ = env.step("[8]")
    assert "[Player 1] [0]" in text
    assert "Tic Tac Toe" in chat_server.requests[0]["messages"][0]["content"]
    chat_server.always = status(404)
    with pytest.raises(EndpointError):
        env.step("[7]")


class WatchedServer(FakeServer):
    """Keeps connections alive; ``ended`` counts those that clients have closed."""

    def __init__(self):
        super().__init__(lambda messages: first_free(messages[-1]["content"]))
        self.ended = threading.Semaphore(0)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        self.ended.release()


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(http, "_IDLE_S", 3600.0)  # no connection ends by itself
    with WatchedServer() as server:
        yield server


def test_closing_ends_the_connection_to_a_served_opponent_and_a_reset_opens_another(watched):
    env = make("TicTacToe-v0", opponent={"url": watched.url, "model": "small"})
    for played in (1, 2):
        env.reset(seed=0)
        env.step("[8]")
        assert "[Player 1] [1]" in env.step("[7]")[0]
        assert watched.connections == played
        env.close()
        env.close()
        assert watched.ended.acquire(timeout=60)


def test_a_copy_has_a_connection_of_its_own(watched):
    env = make("TicTacToe-v0", opponent={"url": watched.url, "model": "small"})
    twin = copy.deepcopy(env)
    for game in (env, twin):
        game.reset(seed=0)
        game.step("[8]")
    env.close()
    twin.step("[7]")
    assert watched.connections == 2
    twin.close()


def test_closing_leaves_the_callers_opponent_open():
    opponent = mock.Mock(return_value="[0]")
    env = make("TicTacToe-v0", opponent=opponent)
    env.reset(seed=0)
    env.close()
    opponent.close.assert_not_called()


def test_a_seat_that_the_game_lacks_is_refused():
    with pytest.raises(ConfigError, match="seat must be"):
        make("TicTacToe-v0", seat=2).reset(seed=0)


def test_settings_of_the_game_reach_it():
    text, _ = make("GuessTheNumber-v0", env_kwargs={"max_number": 7}).reset(seed=0)
    assert "between 1 and 7" in text


NO_WORDS = """
import nltk
nltk.data.path, nltk.download = [], lambda *_, **__: False
import gymnasium as gym, llm_gym
gym.make("llm_gym/TextArena-v0", env_id="Hangman-v0")
"""


def test_a_missing_word_list_names_its_download():
    done = run_python(NO_WORDS)
    assert "ConfigError: Hangman-v0 needs words that TextArena downloads: python -m" in done.stderr

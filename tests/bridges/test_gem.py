"""GEM through the bridge, with the real package: ``make test-bridges``."""

import gymnasium as gym
import pytest

from llm_gym.core.outcome import StopReason

pytest.importorskip("gem")
pytestmark = pytest.mark.filterwarnings("ignore")


def make(env_id, **settings):
    return gym.make("llm_gym/GEM-v0", env_id=env_id, **settings).unwrapped


def test_a_game_is_won_and_lost_at_its_own_limit():
    env = make("game:GuessTheNumber-v0-easy")
    env.reset(seed=2)
    _, reward, terminated, truncated, info = env.step(rf"So \boxed{{{env._game.game_number}}}")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["stop_reason"] is StopReason.WON
    env.reset(seed=2)
    wrong = [n for n in range(1, 11) if n != env._game.game_number]
    for guess in wrong[: env._game.max_turns]:
        _, reward, terminated, truncated, info = env.step(rf"\boxed{{{guess}}}")
    # GEM sets both flags, and pays for coming close.
    assert (terminated, truncated) == (True, False)
    assert info["stop_reason"] is StopReason.LOST
    assert 0.0 < reward < 1.0


def test_a_reply_without_the_format_is_unusable():
    env = make("game:GuessTheNumber-v0-easy")
    env.reset(seed=2)
    *_, info = env.step("seven")
    assert not info["valid_action"]

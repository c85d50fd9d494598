"""Random play is imitated where chance is paid now and then; else a solver, where there is one."""

import gymnasium as gym
import pytest

from llm_gym.as_text import make_text
from llm_gym_agents.learn.warm_start import BATCHES, has_solver, play_at_random

TOOLS = ("llm_gym/TextToSQLEasy-v0", "llm_gym/MathPythonEasy-v0")


@pytest.mark.parametrize("env_id", ["llm_gym/Echo-v0", "llm_gym/Dataset-v0", "CliffWalking-v1"])
def test_chance_is_enough_where_it_is_paid_in_every_batch(env_id):
    found = play_at_random(make_text(env_id), 256, turns=9_000)
    assert found.is_enough
    assert found.paid == BATCHES
    assert found.played < BATCHES * 256  # no more than it takes to know


@pytest.mark.parametrize("env_id", TOOLS)
def test_chance_never_writes_the_sentence_that_pays(env_id):
    found = play_at_random(make_text(env_id, penalty=0.1), 32, turns=9_000, split="train")
    assert not found.is_enough
    assert found.played == BATCHES * 32
    assert str(found).endswith("of 128 episodes, less than once in a batch of 32")


@pytest.mark.parametrize("env_id", ["llm_gym/TowerOfHanoiEasy-v0", "llm_gym/TextGameMedium-v0"])
def test_what_shaping_pays_does_not_count(env_id):
    plain, shaped = (
        play_at_random(make_text(env_id, shaping=on), 8, turns=500, split="train")
        for on in (False, True)
    )
    assert plain == shaped
    assert plain.paid == 0
    assert not shaped.is_enough


def test_a_game_with_shaping_is_paid_where_chance_wins():
    assert play_at_random(
        make_text("llm_gym/TextGameEasy-v0", shaping=True), 64, turns=9_000
    ).is_enough


def test_a_penalty_does_not_count():
    class Nonsense(gym.Wrapper):
        def random_action(self):
            return "nonsense"

    fined = Nonsense(make_text("llm_gym/TowerOfHanoiEasy-v0", penalty=0.1))
    assert play_at_random(fined, 8, turns=500).paid == 0


def test_the_same_episodes_are_looked_at_every_time():
    one, two = (
        play_at_random(make_text("llm_gym/ChainSumEasy-v0"), 64, turns=999) for _ in range(2)
    )
    assert one == two


def test_who_has_a_solver():
    assert has_solver(make_text("llm_gym/TextToSQLEasy-v0"))
    assert not has_solver(make_text("CartPole-v1"))


def test_no_more_turns_are_played_than_a_slow_environment_bears():
    few = play_at_random(make_text("llm_gym/TowerOfHanoiEasy-v0"), 8, turns=25)
    assert few.played == 3  # of ten turns each
    assert few.is_enough  # less than a batch shows nothing

"""MiniGrid and BabyAI in words, with BabyAI's own bot as the oracle."""

import re

import gymnasium as gym
import pytest

from llm_gym.as_text import make_text
from llm_gym.wrappers import AsText
from tests.as_text.phrasebooks.grid_walker import GridWalker

pytest.importorskip("minigrid")
pytestmark = pytest.mark.filterwarnings("ignore")  # other people's


def walker(env):
    return GridWalker()


def bot(env):
    return lambda _: env.get_wrapper_attr("oracle_action")()


def chance(env):
    return lambda _: env.get_wrapper_attr("random_action")()


def success(env_id, player, episodes=20):
    env = make_text(env_id)
    wins = 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        act, done = player(env), False
        while not done:
            observation, _, terminated, truncated, info = env.step(act(observation))
            assert info["valid_action"]
            done = terminated or truncated
        wins += info["success"]
    return wins / episodes


@pytest.mark.parametrize(
    ("env_id", "least"),
    [
        ("MiniGrid-Empty-8x8-v0", 1.0),
        ("MiniGrid-DoorKey-8x8-v0", 1.0),
        ("MiniGrid-LavaCrossingS9N1-v0", 1.0),
        ("BabyAI-GoToRedBallGrey-v0", 1.0),
        ("BabyAI-GoToLocal-v0", 1.0),
        ("BabyAI-PickupDist-v0", 0.9),
    ],
)
def test_a_player_who_reads_only_the_text_does_the_mission(env_id, least):
    assert success(env_id, walker) >= least
    assert success(env_id, chance, 10) <= 0.5


def test_through_many_rooms_it_is_no_worse_than_the_bot_that_sees_everything():
    assert success("BabyAI-GoTo-v0", walker, 6) == 1.0
    assert success("BabyAI-GoTo-v0", bot, 6) == 1.0


def test_the_bot_is_the_oracle_in_every_format_and_after_other_moves():
    env = make_text("BabyAI-GoToLocal-v0", action_format="tag")
    for seed in range(10):
        env.reset(seed=seed)
        for _ in range(seed):  # it finds its way from wherever it is asked
            env.step(env.random_action())
        done = env._stop != "playing"
        while not done:
            *_, terminated, truncated, info = env.step(env.oracle_action())
            done = terminated or truncated
        assert info["success"], seed


def test_only_babyai_has_a_bot():
    env = make_text("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="only the levels of BabyAI"):
        env.oracle_action()


def test_what_is_seen_is_told_with_its_place():
    env = AsText(gym.make("MiniGrid-DoorKey-8x8-v0"), rules="system")
    where = re.compile(r"locked \w+ door(?: (\d) ahead)?(?: and)?(?: (\d) to the (left|right))?")
    found = 0
    for seed in range(10):
        text, _ = env.reset(seed=seed)
        assert text.count("@") == 1
        if seen := where.search(text):
            ahead, aside = int(seen[1] or 0), int(seen[2] or 0) * (-1 if seen[3] == "left" else 1)
            game = env.unwrapped
            x, y = game.agent_pos + ahead * game.dir_vec + aside * game.right_vec
            assert game.grid.get(int(x), int(y)).type == "door"
            found += 1
    assert found >= 3


def test_spaces_of_fewer_actions_have_fewer_names():
    env = AsText(gym.make("MiniGrid-Dynamic-Obstacles-5x5-v0"))
    env.reset(seed=0)
    assert env.legal_actions() == ["turn left", "turn right", "go forward"]
    assert env.step("toggle")[4]["valid_action"] is False


def test_under_a_wrapper_that_shows_something_else_the_observation_is_still_told():
    from minigrid.wrappers import FlatObsWrapper, FullyObsWrapper, ImgObsWrapper

    for wrap in (ImgObsWrapper, FlatObsWrapper):
        text, _ = AsText(wrap(gym.make("MiniGrid-Empty-5x5-v0")), rules="system").reset(seed=0)
        assert "numbers" in text
    # A whole grid that happens to have the size of a view is no view.
    whole = FullyObsWrapper(gym.make("MiniGrid-Empty-5x5-v0", agent_view_size=5))
    assert "You see" not in AsText(whole, rules="system").reset(seed=0)[0]

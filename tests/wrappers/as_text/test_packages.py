"""AsText on packages that nobody chose, each where it is installed: ``make test-packages``.

Three of them get a phrasebook of some ten lines here, and a solver that reads nothing but text.
"""

import re
import warnings

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.core.errors import ContractError
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import make_text
from llm_gym.wrappers.as_text.phrasebooks import Phrasebook

pytestmark = pytest.mark.filterwarnings("ignore")


def made(module, env_id, **settings):
    package = pytest.importorskip(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gym.register_envs(package)
        return gym.make(env_id, **settings)


def returns(env, player, episodes):
    """Return the sum of rewards of each episode, and the share that was a success."""
    totals, won = [], 0
    for seed in range(episodes):
        text, _ = env.reset(seed=seed)
        totals.append(0.0)
        done = False
        while not done:
            text, reward, terminated, truncated, info = env.step(player(text))
            totals[-1] += float(reward)
            assert info["valid_action"]
            done = terminated or truncated
        won += bool(info.get("success"))
    return np.mean(totals), won / episodes


# --- what is told of each ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "env_id", "told"),
    [
        ("highway_env", "highway-fast-v0", "lane left, idle, lane right, faster, slower"),
        ("highway_env", "highway-fast-v0", "cut after 30 moves"),
        ("highway_env", "highway-fast-v0", "as seen from yours"),
        ("highway_env", "highway-fast-v0", "\nvehicle 1: ahead "),
        ("highway_env", "intersection-v0", "\nyou: east 2 m, south "),
        ("highway_env", "parking-v0", "\nYour goal is: east "),
        ("highway_env", "parking-v0", "acceleration from -1 to 1, steering from -1 to 1"),
        ("gym_anytrading", "stocks-v0", "one of: sell, buy"),
        ("flappy_bird_gymnasium", "FlappyBird-v0", "one of: idle, flap"),
        ("ale_py", "ALE/Breakout-v5", "one of: noop, fire, right, left"),
        ("popgym", "popgym-CountRecallEasy-v0", "cut after 51 moves"),
        ("minigrid", "MiniGrid-Empty-5x5-v0", "cut after 100 moves"),
        ("minihack", "MiniHack-Room-5x5-v0", "cut after 100 moves"),
    ],
)
def test_names_labels_and_limits_come_from_the_package(module, env_id, told):
    text, _ = AsText(made(module, env_id)).reset(seed=0)
    assert told in text
    assert "Args:" not in text


def test_the_two_numbers_of_the_lander_are_its_engines():
    pytest.importorskip("Box2D")
    text, _ = make_text("LunarLander-v3", continuous=True).reset(seed=0)
    assert "2 numbers with a space between, main engine from -1 to 1, side engines from" in text


# --- deep sea treasure: a vector of rewards ----------------------------------------------------


class SeaWords(Phrasebook):
    """Where the submarine and the treasures are."""

    def describe(self, observation, info):
        row, column = map(int, observation)
        places = np.argwhere(self.game.sea_map > 0).tolist()
        told = [f"{self.game.sea_map[r, c]:g} at row {r} column {c}" for r, c in places]
        return f"You are at row {row} column {column}. Treasures: {'; '.join(told)}."


def dive(text):
    at, *goals = re.findall(r"row (\d+) column (\d+)", text)
    worth = map(float, re.findall(r"([\d.]+) at row", text))
    best = max(zip(worth, goals, strict=True), key=lambda each: each[0] - sum(map(int, each[1])))
    return "right" if int(at[1]) < int(best[1][1]) else "down"


def test_a_vector_of_rewards_is_refused_or_summed():
    env = made("mo_gymnasium", "deep-sea-treasure-v0")
    text = AsText(env)
    text.reset(seed=0)
    with pytest.raises(ContractError, match="vector of 2 rewards"):
        text.step("down")
    summed = gym.wrappers.TransformReward(env, sum)
    text = AsText(summed, phrasebook=SeaWords)
    assert returns(text, dive, 3)[0] == pytest.approx(7.1, abs=0.01)
    assert returns(text, lambda _: text.random_action(), 20)[0] < 0.0


# --- flappy bird -------------------------------------------------------------------------------


class FlappyWords(Phrasebook):
    """Heights of the bird and of the next gap; on the screen, down is larger."""

    names = ("wait", "flap")

    def describe(self, observation, info):
        pipes = np.reshape(observation[:9], (3, 3))
        x, top, bottom = next(pipe for pipe in pipes if pipe[0] > 0.05)
        return f"You: {observation[9]:.3f}. Gap from {top:.3f} to {bottom:.3f}, {x:.3f} away."


def flap(text):
    you, _, bottom, _ = map(float, re.findall(r"\d+\.\d+", text.rpartition("You:")[2]))
    return "flap" if you > bottom - 0.1 else "wait"


def test_a_reader_flies_through_the_pipes():
    env = made("flappy_bird_gymnasium", "FlappyBird-v0", use_lidar=False, score_limit=5)
    text = AsText(env, phrasebook=FlappyWords)
    flown, fallen = returns(text, flap, 3)[0], returns(text, lambda _: text.random_action(), 3)[0]
    assert flown > 15.0 > fallen


# --- highway -----------------------------------------------------------------------------------


class HighwayWords(Phrasebook):
    """Lanes and distances of the cars ahead, as a driver sees them."""

    def describe(self, observation, info):
        me, *others = np.asarray(observation)
        cars = [
            (round((me[2] + y) * 3), 100 * x, 80 * v) for p, x, y, v, _ in others if p and x > 0
        ]
        told = [f"lane {lane}: {away:.0f} m, {speed:+.0f} m/s" for lane, away, speed in cars]
        return f"You are in lane {round(me[2] * 3)} of 0 to 2. Ahead: {'; '.join(told) or 'free'}."


def drive(text):
    mine = int(re.search(r"in lane (\d)", text)[1])
    cars = [(int(lane), float(away)) for lane, away in re.findall(r"lane (\d): (\d+) m", text)]
    free = {lane: min([away for where, away in cars if where == lane], default=200.0)
            for lane in range(3)}  # fmt: skip
    if free[mine] > 30:
        return "idle"
    ways = {"lane left": mine - 1, "lane right": mine + 1}
    best = max(ways, key=lambda way: free.get(ways[way], 0.0))
    return best if free.get(ways[best], 0.0) > 40 else "slower"


def arrived(total, terminated, reward, info):
    return not terminated


def test_a_reader_drives_without_a_crash():
    text = AsText(made("highway_env", "highway-fast-v0"), phrasebook=HighwayWords, success=arrived)
    driven = returns(text, drive, 8)[1]
    assert driven >= 0.7
    assert driven > returns(text, lambda _: text.random_action(), 8)[1]

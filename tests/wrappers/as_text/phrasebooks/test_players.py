"""Players that read nothing but the text. Each is made anew for every episode."""

import re
import statistics
from collections import deque

import gymnasium as gym
import pytest

from llm_gym.envs.navigation.frozen_lake import best_move
from llm_gym.wrappers.as_text import AsText, make_text

NUMBER = r"(-?[\d.]+(?:e[-+]?\d+)?)"


def value(text, name):
    """Return the number that stands after ``name``, in the last place where it does."""
    return float(re.findall(rf"{name} {NUMBER}", text, re.IGNORECASE)[-1])


def search(start, goal, steps):
    """Return the first step of a shortest way from ``start`` to ``goal``, or None."""
    queue, first = deque([start]), {start: None}
    while queue:
        at = queue.popleft()
        if at == goal:
            return first[at]
        for name, there in steps(at):
            if there not in first:
                first[there] = first[at] or name
                queue.append(there)
    return None


def frozen_lake():
    """Plan on the map, with the chance to slip that the rules tell."""
    slip = turns = left = None

    def play(text):
        nonlocal slip, turns, left
        if slip is None:
            told = re.search(r"With probability ([\d.]+) you slip", text)
            slip = float(told[1]) if told else 0.0
            turns = left = int(re.search(r"cut after (\d+) moves", text)[1])
        shown = "".join(re.findall(r"^(?:[P.HG] )+[P.HG]$", text, re.M)).replace(" ", "")
        move = best_move(shown.replace("P", "."), shown.index("P"), slip, left, turns)
        left -= 1
        return move

    return play


def cliff_walking():
    """Walk around the cliff."""

    def play(text):
        rows = [line.split() for line in re.findall(r"^(?:[P.CG] )+[P.CG]$", text, re.M)]
        cells = {(r, c): cell for r, row in enumerate(rows) for c, cell in enumerate(row)}
        start = next(at for at, cell in cells.items() if cell == "P")
        goal = next(at for at, cell in cells.items() if cell == "G")
        ways = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

        def steps(at):
            for name, (dr, dc) in ways.items():
                there = (at[0] + dr, at[1] + dc)
                if cells.get(there, "C") != "C":
                    yield name, there

        return search(start, goal, steps)

    return play


def taxi():
    """Drive to the passenger, then to the destination, around the walls of the map."""

    def play(text):
        town = re.findall(r"^\|.*\|$", text, re.M)
        row, column = map(int, re.search(r"Taxi: row (\d), column (\d)", text).groups())
        inside = "Passenger: in the taxi" in text
        wanted = "Destination" if inside else "Passenger"
        goal = re.search(rf"{wanted}: \w \(row (\d), column (\d)\)", text).groups()
        goal = tuple(map(int, goal))

        def steps(at):
            r, c = at
            if r > 0:
                yield "north", (r - 1, c)
            if r < len(town) - 1:
                yield "south", (r + 1, c)
            if town[r][2 * c + 2] == ":":
                yield "east", (r, c + 1)
            if town[r][2 * c] == ":":
                yield "west", (r, c - 1)

        if (row, column) == goal:
            return "drop off" if inside else "pick up"
        return search((row, column), goal, steps)

    return play


def blackjack():
    """Basic strategy for a player who may only hit or stick."""

    def play(text):
        points, ace = re.search(r"You have (\d+) points (with|without) a usable", text).groups()
        shown = re.search(r"dealer shows (?:an ace|a (\d+))", text)[1]
        card, points = int(shown) if shown else 1, int(points)
        if ace == "with":
            return "hit" if points <= 17 or (points == 18 and card in (9, 10, 1)) else "stick"
        if points <= 11 or (points == 12 and card not in (4, 5, 6)):
            return "hit"
        return "hit" if points <= 16 and card in (7, 8, 9, 10, 1) else "stick"

    return play


def cart_pole():
    """Push to the side that the pole falls to."""

    def play(text):
        lean = (
            value(text, "pole angle")
            + 0.3 * value(text, "pole speed")
            + 0.05 * value(text, "cart position")
            + 0.1 * value(text, "cart speed")
        )
        return "push right" if lean > 0 else "push left"

    return play


def mountain_car():
    """Push to where the car is rolling."""

    def play(text):
        return "push left" if re.findall(rf"speed {NUMBER}", text)[-1][0] == "-" else "push right"

    return play


def acrobot():
    """Swing the legs against the body, as on a bar: it puts energy in at every swing."""

    def play(text):
        return "torque 1" if value(text, "second speed") > 0 else "torque -1"

    return play


def lunar_lander():
    """Lean towards the pad, brake the fall, and leave it alone once the legs stand."""

    def play(text):
        x, height = value(text, "Sideways"), value(text, "height")
        vx, vy = value(text, "sideways speed"), value(text, "vertical speed")
        tilt, spin = value(text, "tilt"), value(text, "tilt speed")
        if "left leg down" in text or "right leg down" in text:
            return "fire main engine" if vy < -0.1 else "do nothing"
        lean = max(-0.4, min(0.4, 0.5 * x + 1.0 * vx))
        turn = 0.5 * (lean - tilt) - spin
        hover = 0.5 * (0.55 * abs(x) - height) - 0.5 * vy
        if hover > abs(turn) and hover > 0.05:
            return "fire main engine"
        if abs(turn) > 0.05:
            return "fire left engine" if turn > 0 else "fire right engine"
        return "do nothing"

    return play


TAXI = max(env_id for env_id in gym.registry if env_id.startswith("Taxi-v"))
CLIFF = max(env_id for env_id in gym.registry if env_id.startswith("CliffWalking-v"))


def play(env_id, player, episodes, **settings):
    """Return the mean return and the share of successes over the seeds 0, 1, ...

    ``player`` makes one that reads the text, or is the name of the environment's own.
    """
    env = make_text(env_id, **settings)
    returns, wins = [], 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        act = player() if callable(player) else lambda _: env.get_wrapper_attr(player)()
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            assert info["valid_action"], observation
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
        wins += info.get("success", False)
    return statistics.mean(returns), wins / episodes


FIRM, RANDOM = {"is_slippery": False}, "random_action"
# The best player of the 4x4 lake reaches the goal within 100 moves in 74 of 100 episodes.
CROSSED = [0.74 - 4 * (0.74 * 0.26 / 100) ** 0.5] * 2


@pytest.mark.parametrize(
    ("env_id", "player", "episodes", "settings", "earned", "won", "chance"),
    [
        ("FrozenLake-v1", frozen_lake, 3, FIRM, 1.0, 1.0, None),
        ("FrozenLake8x8-v1", frozen_lake, 1, FIRM, 1.0, 1.0, None),
        ("FrozenLake-v1", frozen_lake, 100, {}, *CROSSED, (100, 0.1)),
        (CLIFF, cliff_walking, 2, {"max_episode_steps": 100}, -13.0, 1.0, (2, -100)),
        (TAXI, taxi, 40, {}, 7.0, 1.0, (10, -50)),  # shortest ways give 7.9 on average
        ("Blackjack-v1", blackjack, 1000, {}, -0.17, 0.38, (1000, -0.25)),  # four deviations
        ("CartPole-v1", cart_pole, 3, {}, 500.0, 1.0, (10, 100)),
        ("MountainCar-v0", mountain_car, 10, {}, -140, 1.0, (3, -199)),
        ("Acrobot-v1", acrobot, 4, {}, -120, 1.0, (2, -300)),
        ("LunarLander-v3", lunar_lander, 10, {}, 200, 0.7, (5, 0)),
    ],
)
def test_who_reads_the_text_plays_well_and_chance_does_not(
    env_id, player, episodes, settings, earned, won, chance
):
    if env_id.startswith("Lunar"):
        pytest.importorskip("Box2D")
    total, success = play(env_id, player, episodes, **settings)
    assert total >= earned
    assert success >= won
    if chance:
        assert play(env_id, RANDOM, chance[0], **settings)[0] < chance[1]


@pytest.mark.parametrize(
    ("env_id", "episodes", "settings", "earned", "won"),
    [
        ("FrozenLake-v1", 2, FIRM, 1.0, 1.0),
        ("FrozenLake-v1", 100, {}, *CROSSED),
        (CLIFF, 2, {}, -13.0, 1.0),
        (TAXI, 40, {}, 7.0, 1.0),
        ("Blackjack-v1", 1000, {}, -0.17, 0.38),
        ("CartPole-v1", 3, {}, 500.0, 1.0),
        ("MountainCar-v0", 5, {}, -140, 1.0),
        ("Acrobot-v1", 4, {}, -120, 1.0),
    ],
)
def test_the_oracle_plays_as_well_as_who_reads_the_text(env_id, episodes, settings, earned, won):
    total, success = play(env_id, "oracle_action", episodes, **settings)
    assert total >= earned
    assert success >= won


def test_a_table_is_all_that_an_oracle_needs():
    class Corridor(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
        P = {
            at: {
                0: [(1.0, max(at - 1, 0), -1.0, False)],
                1: [(0.5, at, -1.0, False), (0.5, at + 1, 5.0 * (at == 2), at == 2)],
            }
            for at in range(3)
        }

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.s = 1
            return 1, {}

    env = AsText(Corridor())
    env.reset(seed=0)
    assert env.oracle_action() == "1"
    del Corridor.P
    with pytest.raises(NotImplementedError):
        AsText(Corridor()).oracle_action()

"""A player of MiniGrid and BabyAI that reads nothing but the text: it draws a map as it walks."""

import re
from collections import deque

import gymnasium as gym
import pytest

from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import make_text

pytest.importorskip("minigrid")
pytestmark = pytest.mark.filterwarnings("ignore")  # other people's

WAYS = {"east": (1, 0), "south": (0, 1), "west": (-1, 0), "north": (0, -1)}
NAMES = list(WAYS)
SEEN = re.compile(
    r"(?:an? |the )?((?:open |closed |locked )?(?:\w+ )?(?:door|key|ball|box|goal|lava)) "
    r"(?:(\d+) ahead)?(?: and )?(?:(\d+) to the (left|right))?"
)
MISSION = re.compile(r"(go to|pick up|open) (?:the|a) (?:(\w+) )?(door|key|ball|box|object)")


class GridWalker:
    """Goes to what the mission names, explores until it is seen, and opens doors on the way."""

    def __init__(self):
        self.at, self.last = (0, 0), None
        self.cells, self.things = {}, {}

    def __call__(self, text):
        self.read(text)
        self.last = self.choose()
        return self.last

    # --- the map --------------------------------------------------------------------------

    def read(self, text):
        facing = re.search(r"You face (\w+) and carry (.+)\.", text)
        if self.last == "go forward" and self.free(self.ahead(self.at)):
            self.at = self.ahead(self.at)
        self.way, self.hands = facing[1], facing[2]
        self.mission = re.search(r"Mission: (.+)", text)[1]
        rows = [row.split() for row in re.findall(r"^[?.#DKBXG~@](?: [?.#DKBXG~@])+$", text, re.M)]
        middle, last = len(rows[0]) // 2, len(rows) - 1
        for row, line in enumerate(rows):
            for column, mark in enumerate(line):
                if mark != "?":
                    place = self.place(last - row, column - middle)
                    self.cells[place] = "." if mark == "@" else mark
                    self.things.pop(place, None)
        seen = re.findall(r"^You see (.+)\.$", text, re.M)[-1]
        for thing, ahead, aside, side in SEEN.findall(seen):
            across = int(aside or 0) * (-1 if side == "left" else 1)
            self.things[self.place(int(ahead or 0), across)] = thing

    def place(self, ahead, across):
        (fx, fy), (rx, ry) = WAYS[self.way], WAYS[NAMES[(NAMES.index(self.way) + 1) % 4]]
        return (self.at[0] + ahead * fx + across * rx, self.at[1] + ahead * fy + across * ry)

    def ahead(self, at):
        return (at[0] + WAYS[self.way][0], at[1] + WAYS[self.way][1])

    def free(self, place):
        mark = self.cells.get(place)
        return mark in (".", "G") or (mark == "D" and self.things[place].startswith("open"))

    # --- the plan -------------------------------------------------------------------------

    def choose(self):
        for places, deed in self.wishes():
            if places and (move := self.face(places, deed)):
                return move
        return self.explore()

    def wishes(self):
        """Yield places to stand in front of, and what to do there, the best first."""
        if "goal" in self.mission:
            yield self.where("goal"), "go forward"
        elif named := MISSION.search(self.mission):
            verb, colour, kind = named.groups()
            kinds = ("key", "ball", "box") if kind == "object" else (kind,)
            places = [p for k in kinds for p in self.where(k) if (colour or "") in self.things[p]]
            yield places, {"go to": "done", "pick up": "pick up", "open": "toggle"}[verb]
        doors = self.where("locked")
        if "key" in self.hands:
            yield [d for d in doors if self.things[d].split()[1] in self.hands], "toggle"
        elif doors:
            colours = {self.things[d].split()[1] for d in doors}
            keys = [k for k in self.where("key") if self.things[k].split()[0] in colours]
            yield keys, "pick up"

    def where(self, word):
        return [place for place, thing in self.things.items() if word in thing]

    def explore(self):
        edge = {p for p in self.cells if self.free(p)}
        unknown = {n for p in edge for n in self.around(p) if n not in self.cells}
        closed = self.where("closed")
        return self.face(unknown, "go forward") or self.face(closed, "toggle") or "turn left"

    @staticmethod
    def around(place):
        return [(place[0] + dx, place[1] + dy) for dx, dy in WAYS.values()]

    def face(self, places, deed):
        """Return the next move on the way to stand in front of one of ``places``."""
        places, queue, first = set(places), deque([self.at]), {self.at: None}
        while queue:
            at = queue.popleft()
            for way, (dx, dy) in WAYS.items():
                there = (at[0] + dx, at[1] + dy)
                if there in places:
                    towards = first[at] or way
                    return self.turn(towards) or (deed if first[at] is None else "go forward")
                if there not in first and self.free(there) and self.cells[there] != "G":
                    first[there] = first[at] or way
                    queue.append(there)
        return None

    def turn(self, way):
        by = (NAMES.index(way) - NAMES.index(self.way)) % 4
        return {0: None, 1: "turn right", 2: "turn right", 3: "turn left"}[by]


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
        ("MiniGrid-Empty-8x8-v0", 1.0), ("BabyAI-GoToRedBallGrey-v0", 1.0),
        ("BabyAI-GoToLocal-v0", 1.0), ("BabyAI-PickupDist-v0", 0.9),
        pytest.param("MiniGrid-DoorKey-8x8-v0", 1.0, marks=pytest.mark.slow),
        pytest.param("MiniGrid-LavaCrossingS9N1-v0", 1.0, marks=pytest.mark.slow),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("name", "moves"), [("Empty-5x5", 5), ("DoorKey-6x6", None), ("MultiRoom-N2-S4", None)]
)
def test_other_grids_are_walked_on_the_shortest_way(name, moves):
    env = make_text(f"MiniGrid-{name}-v0")
    for seed in range(5):
        env.reset(seed=seed)
        env.step("turn left")  # it finds its way from wherever it is asked
        steps, done = 0, False
        while not done:
            *_, terminated, truncated, info = env.step(env.oracle_action())
            steps, done = steps + 1, terminated or truncated
        assert info["success"], seed
        assert moves is None or steps == moves + 1  # it faced east, and turns back


def test_a_grid_without_a_goal_has_no_oracle():
    env = make_text("MiniGrid-Fetch-5x5-N2-v0")
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="goal"):
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

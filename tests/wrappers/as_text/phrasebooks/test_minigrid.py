"""MiniGrid and BabyAI in words: the text names all that is seen and where, and nothing else."""

import re

import gymnasium as gym
import pytest

from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import make_text
from tests.wrappers.as_text.plain_envs import started

pytest.importorskip("minigrid")
pytestmark = pytest.mark.filterwarnings("ignore")  # other people's

WAYS = {"east": (1, 0), "south": (0, 1), "west": (-1, 0), "north": (0, -1)}
MARKS = {
    "wall": "#", "floor": ".", "door": "D", "key": "K", "ball": "B", "box": "X", "goal": "G",
    "lava": "~",
}  # fmt: skip
SEEN = re.compile(r"(.+?) (?:(\d+) ahead)?(?: and )?(?:(\d+) to the (left|right))?(?:, |$)")


def named(thing):
    """Return what the text should call a thing of MiniGrid's."""
    if thing.type in ("goal", "lava"):
        return "the goal" if thing.type == "goal" else "lava"
    if thing.type != "door":
        return f"a {thing.color} {thing.type}"
    state = "an open" if thing.is_open else "a locked" if thing.is_locked else "a closed"
    return f"{state} {thing.color} door"


def check_view(game, text):
    """Compare a text with the view that the game draws for its own pictures."""
    view, visible = game.gen_obs_grid()
    last, middle = game.agent_view_size - 1, game.agent_view_size // 2
    picture, things = [], []
    for row in range(last + 1):
        for column in range(last + 1):
            thing = view.get(column, row) if visible[column, row] else None
            mark = MARKS[thing.type] if thing else "." if visible[column, row] else "?"
            if (column, row) == (middle, last):
                mark = "@"
            elif mark not in "#.?":
                things.append((named(thing), last - row, column - middle))
            picture.append(mark)
    assert "".join(text.split("\n", 3)[3].split()) == "".join(picture)
    seen = re.search(r"^You see (.+)\.$", text, re.M)[1]
    found = [
        (name, int(ahead or 0), int(aside or 0) * (-1 if side == "left" else 1))
        for name, ahead, aside, side in SEEN.findall(seen)
    ]
    assert sorted(found) == sorted(things) or (seen, things) == ("nothing special", [])
    way, hands = re.search(r"^You face (\w+) and carry (.+)\.$", text, re.M).groups()
    assert (WAYS[way], f"Mission: {game.mission}") == (tuple(game.dir_vec), text.split("\n")[0])
    assert hands == (named(game.carrying) if game.carrying else "nothing")


@pytest.mark.parametrize(
    ("env_id", "settings", "before"),
    [
        ("MiniGrid-Empty-5x5-v0", {}, 1),
        ("MiniGrid-DoorKey-6x6-v0", {}, 3),
        ("MiniGrid-MultiRoom-N2-S4-v0", {}, 1),
        ("BabyAI-GoToLocal-v0", {"action_format": "tag"}, 8),
        ("BabyAI-PickupDist-v0", {}, 0),
        ("BabyAI-UnlockPickup-v0", {}, 0),
        ("BabyAI-GoTo-v0", {}, 0),
        pytest.param("MiniGrid-LavaCrossingS9N1-v0", {}, 0, marks=pytest.mark.slow),
    ],
)
def test_the_oracle_wins_after_random_moves_and_texts_match_the_view(env_id, settings, before):
    env = make_text(env_id, rules="system", **settings)
    for seed in range(5):
        text, _ = env.reset(seed=seed)
        moves = [env.random_action() for _ in range(before)]
        done = False
        while not done:
            check_view(env.unwrapped, text)
            action = moves.pop() if moves else env.oracle_action()
            text, _, terminated, truncated, info = env.step(action)
            assert info["valid_action"]
            done = terminated or truncated
        assert info["success"], seed
        assert text.endswith("\nYour mission is done.")


def test_the_oracle_takes_the_shortest_path():
    env = make_text("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    turns = 0
    while env._stop == "playing":
        turns = env.step(env.oracle_action())[4]["turn"]
    assert turns == 5


def test_random_moves_seldom_finish_a_mission():
    env = make_text("BabyAI-GoToRedBallGrey-v0")
    wins = 0
    for seed in range(10):
        env.reset(seed=seed)
        while env._stop == "playing":
            info = env.step(env.random_action())[4]
        wins += info["success"]
    assert wins <= 5


@pytest.mark.parametrize("name", ["Fetch-5x5-N2", "GoToDoor-5x5"])
def test_a_grid_without_a_goal_has_no_oracle(name):
    env = make_text(f"MiniGrid-{name}-v0")
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="goal"):
        env.oracle_action()


def test_spaces_of_fewer_actions_have_fewer_names():
    env = started(gym.make("MiniGrid-Dynamic-Obstacles-5x5-v0"))
    assert env.legal_actions() == ["turn left", "turn right", "go forward"]
    assert env.step("toggle")[4]["valid_action"] is False


def test_observations_of_other_wrappers_are_shown():
    from minigrid.wrappers import FlatObsWrapper, FullyObsWrapper, ImgObsWrapper

    for wrap in (ImgObsWrapper, FlatObsWrapper):
        text, _ = AsText(wrap(gym.make("MiniGrid-Empty-5x5-v0")), rules="system").reset(seed=0)
        assert "numbers" in text
    # A whole grid that happens to have the size of a view is no view.
    whole = FullyObsWrapper(gym.make("MiniGrid-Empty-5x5-v0", agent_view_size=5))
    assert "You see" not in AsText(whole, rules="system").reset(seed=0)[0]

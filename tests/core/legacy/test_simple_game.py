"""The small game in the four-value shape: playable, fair and deaf to nonsense."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llm_gym  # noqa: F401 - registers the environments
from llm_gym.core.legacy import (
    SimpleGameEnvironment,
    as_gym,
)
from llm_gym.core.legacy.simple_game import parse_command
from llm_gym.core.outcome import StopReason


def solve(game: SimpleGameEnvironment) -> list[str]:
    """Return the shortest way to win, from what the state says."""
    numbers = [int(n) for n in re.findall(r"\d", game.get_state_description())]
    (x, y), sword, altar = numbers[0:2], numbers[2:4], numbers[4:6]
    actions = []
    for (goal_x, goal_y), last in ((sword, "pick up sword"), (altar, "complete quest")):
        actions += ["move east" if goal_x > x else "move west"] * abs(goal_x - x)
        actions += ["move north" if goal_y > y else "move south"] * abs(goal_y - y)
        actions.append(last)
        x, y = goal_x, goal_y
    return actions


def test_every_board_is_won_within_eight_steps() -> None:
    lengths = set()
    for seed in range(100):
        game = SimpleGameEnvironment({"max_steps": 8, "seed": seed})
        game.reset()
        actions = solve(game)
        results = [game.step(action) for action in actions]
        assert results[-1][1:] == (1.0, True, {"success": True})
        assert sum(result[1] for result in results) == 1.0
        lengths.add(len(actions))
    assert max(lengths) == 8


def test_running_out_of_steps_is_a_loss_by_the_rules() -> None:
    env = as_gym(SimpleGameEnvironment, {"max_steps": 2})
    env.reset(seed=0)
    assert env.step("dance")[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step("dance")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["stop_reason"] is StopReason.LOST
    assert "within 2 steps" in env.get_wrapper_attr("system_prompt")


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("dance", "I do not know that command."),
        ("complete quest", "You do not carry the sword."),
        ("pick up sword", "There is no such thing here."),
        ("pick up moon", "There is no such thing here."),
    ],
)
def test_a_command_that_cannot_be_done_changes_nothing_but_the_steps(
    action: str, reason: str
) -> None:
    game = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    before = game.reset()
    state, reward, done, info = game.step(action)
    assert state == f"{reason}\n{before.replace('remaining: 10', 'remaining: 9')}"
    assert (reward, done, info) == (0.0, False, {"invalid_action": True})


def test_the_board_has_edges_and_the_altar_a_place() -> None:
    game = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    game.reset()
    states = [game.step("move north")[0] for _ in range(2)]
    assert states[1].startswith("The board ends here.")
    game.step("move west")
    assert game.step("pick up sword")[3] == {}
    assert "Sword: carried" in game.get_state_description()
    assert game.step("complete quest")[0].startswith("The altar is elsewhere.")


@pytest.mark.parametrize(
    "text",
    [
        "move north",
        "Go North.",
        "<think>go south</think>\nwalk to the   north!",
        "Hm.\nmove north\n",
    ],
)
def test_a_command_may_be_said_in_several_ways(text: str) -> None:
    assert parse_command(text) == ("move", "north")


@pytest.mark.parametrize(
    "text",
    ["", "north", "move up", "move north and south", "do not move north", "x" * 10**6, "\x00",
     "<think>move north", "\ud800", "9" * 5000],
)  # fmt: skip
def test_anything_else_is_no_command(text: str) -> None:
    assert parse_command(text) is None


@given(st.text(alphabet=st.characters()))
def test_no_text_makes_the_game_raise(text: str) -> None:
    env = as_gym(SimpleGameEnvironment)
    env.reset(seed=0)
    observation, *_ = env.step(text)
    assert observation in env.observation_space

"""The base class of four-value environments, and what the adapter passes on to it."""

import copy
import pickle
import re
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import (
    BaseEnvironment,
    EnvironmentConfig,
    SimpleGameEnvironment,
    as_gym,
    parse_command,
)
from llm_gym.core.outcome import StopReason
from tests.core.legacy.old_games import TextGame


def test_the_base_class_is_abstract_and_has_no_prompt() -> None:
    assert not issubclass(BaseEnvironment, gym.Env)
    with pytest.raises(TypeError, match="abstract"):
        BaseEnvironment()  # type: ignore[abstract]
    assert TextGame().get_prompt_prefix() == ""
    assert str(as_gym(TextGame)) == "<LegacyEnv<TextGame>>"


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (None, 10),
        *((made(), 10) for made in (dict, EnvironmentConfig, SimpleNamespace)),
        *((made(max_steps=np.int64(3)), 3) for made in (dict, EnvironmentConfig, SimpleNamespace)),
    ],
)
def test_a_config_is_an_object_or_a_dictionary(config: Any, steps: int) -> None:
    game = TextGame(config)
    assert (game.max_steps, type(game.max_steps)) == (steps, int)
    assert game.config is config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_steps", steps) for steps in (0, -1, 2.5, "10", None, True)),
        *(("seed", seed) for seed in (-1, 0.5, "lucky", False)),
    ],
)
def test_a_bad_limit_or_seed_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        TextGame({name: value})
    with pytest.raises(ConfigError, match=name):
        TextGame(EnvironmentConfig(**{name: value}))


def test_the_seed_of_the_config_fixes_the_randomness() -> None:
    draws = [TextGame(EnvironmentConfig(seed=s)).np_random.integers(10**9) for s in (4, 4, 5)]
    assert draws[0] == draws[1] != draws[2]


def test_done_has_two_names_and_is_done_includes_the_limit() -> None:
    game = TextGame({"max_steps": 2})
    for done in (True, False):
        game._done = done
        assert game.done == game.is_done() == done
    game.step_count = 2
    assert game.is_done()
    assert not game.done


def test_a_seed_reaches_np_random() -> None:
    env = as_gym(SimpleGameEnvironment)
    boards = [env.reset(seed=seed)[0] for seed in (1, 1, 2, 3, 4)]
    assert boards[0] == boards[1]
    assert len(set(boards)) > 2
    env.reset(seed=1)
    following = [env.reset()[0] for _ in range(4)]
    env.reset(seed=1)
    assert following == [env.reset()[0] for _ in range(4)]


def test_reset_gets_seed_and_options_where_it_accepts_them() -> None:
    class Modern(TextGame):
        def reset(self, seed: int = 7, options: Any = None) -> str:
            return f"{seed} {options}"

    class Open(TextGame):
        def reset(self, **given: Any) -> str:
            return str(given)

    env = as_gym(Modern)
    assert env.reset(seed=3, options={"a": 1})[0] == "3 {'a': 1}"
    assert env.reset()[0] == "7 None", "without a seed its own default stands"
    assert as_gym(Open).reset(seed=3, options={"a": 1})[0] == "{'options': {'a': 1}, 'seed': 3}"


def test_another_random_generator_is_kept_and_unused_options_are_refused() -> None:
    game = TextGame()
    own = game.np_random = np.random.RandomState(0)  # type: ignore[assignment]
    as_gym(game).reset(seed=3)
    assert game.np_random is own  # type: ignore[comparison-overlap]
    with pytest.raises(ConfigError, match="options"):
        as_gym(TextGame).reset(options={"split": "test"})


def test_the_prefix_is_the_system_prompt_and_rendering_describes_the_state() -> None:
    game = SimpleGameEnvironment()
    env = as_gym(game)
    assert env.get_wrapper_attr("system_prompt") == game.get_prompt_prefix() != ""
    assert env.reset()[1]["system_prompt"] == game.get_prompt_prefix()
    env = as_gym(SimpleGameEnvironment)
    observation, _ = env.reset(seed=0)
    assert env.render() == env.get_wrapper_attr("describe")() == observation


def test_closing_closes_a_class_that_can_be_closed() -> None:
    class Closing(TextGame):
        closed = False

        def close(self) -> None:
            self.closed = True

    game = Closing()
    as_gym(game).close()
    assert game.closed
    as_gym(TextGame).close()


@pytest.mark.parametrize("fork", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_is_independent_and_plays_the_same(fork: Any) -> None:
    env = as_gym(SimpleGameEnvironment)
    env.reset(seed=3)
    other = fork(env)
    assert env.step("move north")[0] == other.step("move north")[0]
    assert [env.reset()[0] for _ in range(3)] == [other.reset()[0] for _ in range(3)]


def solve(game: SimpleGameEnvironment) -> list[str]:
    """Return the shortest way to win, read from the state."""
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
def test_an_impossible_command_costs_only_a_step(action: str, reason: str) -> None:
    game = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    before = game.reset()
    state, reward, done, info = game.step(action)
    assert state == f"{reason}\n{before.replace('remaining: 10', 'remaining: 9')}"
    assert (reward, done, info) == (0.0, False, {"invalid_action": True})


def test_edges_stop_moves_and_the_quest_ends_at_the_altar_only() -> None:
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
def test_a_command_is_parsed_in_several_spellings(text: str) -> None:
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

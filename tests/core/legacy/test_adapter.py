"""Environments in the four-value shape, alone and through ``as_gym``."""

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from llm_gym.core.errors import ActionTypeError, ConfigError, ContractError
from llm_gym.core.legacy import (
    BaseEnvironment,
    EnvironmentConfig,
    LegacyEnv,
    SimpleGameEnvironment,
    as_gym,
)
from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from tests.core.legacy.old_games import Step, TextGame


class CountingGame(BaseEnvironment):
    """Counts its own steps and ends itself."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.position = 0

    def reset(self) -> str:
        self.position = self.step_count = 0
        self.done = False
        return self.get_state_description()

    def step(self, action: str) -> Step:
        self.step_count += 1
        info: dict[str, Any] = {}
        reward = 0.0
        if "move north" in action:
            self.position += 1
        elif "complete quest" in action:
            reward, self.done, info["success"] = 10.0, True, True
        else:
            reward, info["invalid_action"] = -0.1, True
        if self.step_count >= self.max_steps:
            self.done = True
        return self.get_state_description(), reward, self.done, info

    def get_state_description(self) -> str:
        return f"Position: {self.position}, steps left: {self.max_steps - self.step_count}"


class Scripted(BaseEnvironment):
    """Answers each step with whatever it was given."""

    def __init__(self, *answers: Any, max_steps: int = 10) -> None:
        super().__init__({"max_steps": max_steps})
        self.answers = list(answers)

    def reset(self) -> str:
        return "begin"

    def step(self, action: str) -> Any:
        answer = self.answers.pop(0)
        return answer(self) if callable(answer) else answer

    def get_state_description(self) -> str:
        return "now"


def play(env: gym.Env[str, str], *actions: str) -> list[tuple[bool, bool, StopReason]]:
    env.reset(seed=0)
    ends = []
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        ends.append((terminated, truncated, info["stop_reason"]))
    return ends


PLAYING = (False, False, StopReason.PLAYING)
CUT = (False, True, StopReason.MAX_STEPS)
FINISHED = (True, False, StopReason.FINISHED)
WON = (True, False, StopReason.WON)


@pytest.mark.parametrize("game", [TextGame, CountingGame, SimpleGameEnvironment])
def test_an_adapted_class_passes_the_checker_of_gymnasium(game: Any) -> None:
    # Only the render check is left out: it wants to rebuild the environment from a spec.
    check_env(as_gym(game, {"max_steps": 5}), skip_render_check=True)


def test_as_gym_takes_instances_classes_and_gymnasium_environments() -> None:
    game = TextGame()
    env = as_gym(game)
    assert isinstance(env, LegacyEnv)
    assert env.environment is game
    assert as_gym(TextGame, EnvironmentConfig(max_steps=4)).environment.max_steps == 4
    theirs = gym.make("llm_gym/GuessTheNumber-v0")
    assert as_gym(theirs) is theirs
    for space in (env.observation_space, env.action_space):
        assert isinstance(space, AnyText)
        assert "\ud800 naïve\n" in space


@pytest.mark.parametrize("thing", ["llm_gym/GuessTheNumber-v0", None, 3, dict, gym.Env, object()])
def test_other_arguments_of_as_gym_are_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="as_gym"):
        as_gym(thing)
    with pytest.raises(ConfigError, match="config"):  # which would have no effect
        as_gym(TextGame(), {"max_steps": 3})


def test_every_info_has_the_common_keys() -> None:
    env = as_gym(CountingGame, {"max_steps": 9})
    _, info = env.reset()
    assert info == {
        "valid_action": True,
        "success": False,
        "stop_reason": StopReason.PLAYING,
        "reward_terms": {},
        "turn": 0,
        "invalid_actions": 0,
    }
    *_, info = env.step("dance")
    assert info == {
        "invalid_action": True,
        "valid_action": False,
        "success": False,
        "stop_reason": StopReason.PLAYING,
        "reward_terms": {"reward": -0.1},
        "turn": 1,
        "invalid_actions": 1,
    }
    _, reward, terminated, truncated, info = env.step("complete quest")
    assert (reward, terminated, truncated) == (10.0, True, False)
    assert info["success"] is True
    assert info["stop_reason"] is StopReason.WON
    assert info["valid_action"] is True


def test_a_class_may_give_its_own_reward_terms_and_validity() -> None:
    own = {"reward_terms": {"a": 1.0, "b": 1.0}, "valid_action": False, "note": "hm"}
    env = as_gym(Scripted(("x", 2.0, False, own)))
    env.reset()
    *_, info = env.step("a")
    assert info["reward_terms"] == {"a": 1.0, "b": 1.0}
    assert info["valid_action"] is False
    assert info["invalid_actions"] == 1
    assert info["note"] == "hm"


def test_reset_clears_the_done_flag() -> None:
    env = as_gym(TextGame, {"max_steps": 2})
    assert play(env, "attack") == [(True, False, StopReason.FINISHED)]
    assert play(env, "wait", "wait") == [PLAYING, CUT]
    assert play(env, "wait", "attack")[-1] == (True, False, StopReason.FINISHED)

    class Shadow(Scripted):
        done = False

    env = as_gym(Shadow(ends_silently, ON))
    assert play(env, "a") == [FINISHED]
    assert play(env, "b") == [PLAYING]


class OwnEnd(Scripted):
    def is_done(self) -> bool:
        return len(self.answers) == 0 or super().is_done()


def inherited(game: Scripted) -> Step:
    game.step_count += 1
    return "on", 0.0, game.is_done(), {}


def lost(game: Scripted) -> Step:
    game.step_count += 1
    game.done = True
    return "on", 0.0, game.is_done(), {"success": False}


def ends_silently(game: Scripted) -> Step:
    game.done = True
    return "over", 0.0, False, {}


ON = ("on", 0.0, False, {})
ENDS = {  # the end, and infos that lead to it
    (True, False, StopReason.FINISHED): [
        {}, {"stop_reason": "the cat did it"}, {"stop_reason": ["unhashable"]},
    ],
    (True, False, StopReason.WON): [{"success": True}],
    (True, False, StopReason.LOST): [{"success": False}],
    (True, False, StopReason.DRAWN): [{"stop_reason": "drawn", "success": False}],
    (False, True, StopReason.TOKENS): [{"stop_reason": "tokens"}],
    (False, True, StopReason.MAX_STEPS): [{"stop_reason": "max_steps"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("game", "ends"),
    [
        (TextGame({"max_steps": 3}), [PLAYING, PLAYING, CUT]),
        (CountingGame({"max_steps": 2}), [PLAYING, FINISHED]),
        # A win in the last step, returned while ``self.done`` stays false, is no cut.
        (Scripted(("yes", 1.0, True, {"success": True}), max_steps=1), [WON]),
        (Scripted(inherited, inherited, max_steps=2), [PLAYING, CUT]),
        (Scripted(lost, max_steps=1), [(True, False, StopReason.LOST)]),
        (Scripted(ends_silently), [FINISHED]),
        (OwnEnd(ON, ON), [PLAYING, FINISHED]),
        *(
            (Scripted(("x", 0.0, True, info)), [end])
            for end, infos in ENDS.items()
            for info in infos
        ),
    ],
)
def test_every_end_has_its_flags_and_stop_reason(game: BaseEnvironment, ends: Any) -> None:
    assert play(as_gym(game), *["move north"] * len(ends)) == ends


def test_a_class_that_never_calls_the_base_works_with_the_defaults() -> None:
    class Careless(TextGame):
        def __init__(self) -> None:
            self.mood = "careless"

        def reset(self) -> str:
            return f"Room {self.np_random.integers(10**9)}"

    game = Careless()
    env = as_gym(game)
    assert env.reset()[0].startswith("Room ")
    assert env.reset(seed=1)[0] == env.reset(seed=1)[0]
    game.score, game.inventory = 0.0, []
    assert play(env, *["wait"] * 10)[-1] == CUT


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "got NoneType"),
        (("x", 0.0, False), "got 3 values"),
        (("x", 0.0, False, False, {}), "got 5 values"),
        ((3, 0.0, False, {}), "observation"),
        (("x", "1.0", False, {}), "reward"),
        (("x", None, False, {}), "reward"),
        (("x", float("nan"), False, {}), "reward"),
        (("x", 0.0, False, [1]), "info"),
        (("x" * 1_000_001, 0.0, False, {}), "1000000"),
    ],
)
def test_a_step_of_another_shape_is_refused(answer: Any, sentence: str) -> None:
    env = as_gym(Scripted(answer))
    env.reset()
    with pytest.raises(ContractError, match=re.escape(sentence)):
        env.step("a")


def test_a_reset_without_an_observation_is_refused() -> None:
    class Silent(TextGame):
        def reset(self) -> Any:
            return None

    with pytest.raises(ContractError, match=r"Silent\.reset.*str"):
        as_gym(Silent).reset()


def test_numpy_numbers_and_a_missing_info_are_accepted() -> None:
    env = as_gym(Scripted(("x", np.float32(0.5), np.bool_(True), None)))
    env.reset()
    _, reward, terminated, truncated, _ = env.step("a")
    assert (reward, terminated, truncated) == (0.5, True, False)
    assert type(reward) is float
    assert type(terminated) is bool


def test_step_needs_text_and_a_running_episode() -> None:
    env = as_gym(TextGame)
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("wait")
    play(env, "attack")
    with pytest.raises(ResetNeeded, match=r"is over \(finished\)"):
        env.step("wait")
    env = as_gym(TextGame)
    env.reset()
    with pytest.raises(ActionTypeError, match=r"TextGame.*list"):
        env.step([1, 2])  # type: ignore[arg-type]

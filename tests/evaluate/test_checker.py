"""The checker: every check fails on an environment that breaks its rule, and only then."""

import itertools

import gymnasium as gym
import pytest

from llm_gym.core.outcome import go_on
from llm_gym.core.spaces import AnyText
from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from llm_gym.errors import ContractError
from llm_gym.evaluate.checker import CHECKS, audit, check_text_env

_clock = itertools.count()


class Sound(GuessTheNumberEnv):
    """Nothing wrong with it."""


class OutsideItsSpace(GuessTheNumberEnv):
    max_observation_chars = 10


class Forgetful(GuessTheNumberEnv):
    def describe(self):
        return f"Turn {next(_clock)}."


class Crashing(GuessTheNumberEnv):
    def apply(self, move):
        if move == "nan":
            return go_on(str(int(move)))
        return super().apply(move)


class Dishonest(GuessTheNumberEnv):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward + 0.5, terminated, truncated, info


class BothFlags(GuessTheNumberEnv):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, terminated, info


class ListsTooMuch(GuessTheNumberEnv):
    def legal_moves(self):
        return ["0", "1"]


class WrongPattern(GuessTheNumberEnv):
    def action_pattern(self):
        return "[a-z]+"


class LosingOracle(GuessTheNumberEnv):
    def oracle_move(self):
        return str(self.low)


class FoolishSolver(GuessTheNumberEnv):
    @staticmethod
    def solve(observations, moves):
        return "1"


class Leaky(GuessTheNumberEnv):
    def describe(self):
        return f"Turns left: {self.turns_left}. Parity: {self._target % 2}."


class HalfRestored(GuessTheNumberEnv):
    def restore(self, snapshot):
        turn = self._base_turn
        super().restore(snapshot)
        self._base_turn = turn


class Nameless(GuessTheNumberEnv):
    def instance(self):
        return self._base_turn


BROKEN = {
    OutsideItsSpace: "passes Gymnasium's own checker",
    Forgetful: "same seed and actions, same episode",
    Crashing: "no text raises",
    Dishonest: "flags, info and reward terms agree",
    BothFlags: "flags, info and reward terms agree",
    ListsTooMuch: "legal actions are usable and match the pattern",
    WrongPattern: "legal actions are usable and match the pattern",
    LosingOracle: "the oracle wins, or keeps its promise",
    FoolishSolver: "a random player is below the solver",
    Leaky: "swapping the secret changes no text",
    HalfRestored: "a snapshot restores exactly",
    Nameless: "an instance has one name",
}


@pytest.mark.parametrize("env_class", BROKEN, ids=lambda c: c.__name__)
def test_a_broken_rule_is_found_and_named(env_class):
    with pytest.raises(ContractError) as caught:
        check_text_env(env_class())
    assert f"- {BROKEN[env_class]}: " in str(caught.value)


def test_every_check_can_fail():
    assert set(BROKEN.values()) == set(CHECKS)


def test_a_sound_environment_passes_every_check():
    assert [check.passed for check in audit(Sound())] == [True] * len(CHECKS)


class Foreign(gym.Env):
    """A text environment of somebody else, on plain Gymnasium."""

    observation_space = action_space = AnyText(100)
    metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "say hi", {}

    def step(self, action):
        return "bye", float(action == "hi"), True, False, {}


def test_a_foreign_environment_gets_the_checks_that_apply():
    checks = {check.name: check.passed for check in audit(Foreign())}
    assert checks["passes Gymnasium's own checker"] is True
    assert checks["no text raises"] is True
    assert checks["the oracle wins, or keeps its promise"] is None
    check_text_env(Foreign())

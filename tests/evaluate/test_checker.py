"""The checker: every check fails on an environment that breaks its rule, and only then."""

import itertools
import re

import gymnasium as gym
import pytest

from llm_gym.core.errors import ContractError
from llm_gym.core.outcome import go_on
from llm_gym.core.spaces import AnyText
from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from llm_gym.evaluate import checker
from llm_gym.evaluate.checker import CHECKS, audit, check_text_env

_clock = itertools.count()


class Sound(GuessTheNumberEnv):
    """Nothing wrong with it."""


class CostlyTurns(GuessTheNumberEnv):
    def apply(self, move):
        text, valid, stop, reward = super().apply(move)
        return text, valid, stop, reward - 0.1 if valid else reward


class Sharing(GuessTheNumberEnv):
    has_splits = True

    def instance(self):
        return self._target, self._spoilt

    def new_game(self, rng):
        super().new_game(rng)
        self._spoilt = float(rng.random())


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


class RefusesAndActs(GuessTheNumberEnv):
    def apply(self, move):
        outcome = super().apply(move)
        if not outcome[1]:
            self._target = self.low
        return outcome


class RefusesAndRolls(GuessTheNumberEnv):
    def apply(self, move):
        outcome = super().apply(move)
        if not outcome[1]:
            self.np_random.random()  # what comes next is another game
        return outcome


class DeepPotential(GuessTheNumberEnv):
    def potential(self):
        return -1e6


class RisingPotential(GuessTheNumberEnv):
    def potential(self):
        return 2.0 if self.turns_left < 3 else 0.0


class NoPotentialNumber(GuessTheNumberEnv):
    def potential(self):
        return float("nan")


class OneInstance(GuessTheNumberEnv):
    def new_game(self, rng):
        super().new_game(rng)
        self._target = 7

    def swap_secret(self, rng):
        return False


class PromisesSplits(GuessTheNumberEnv):
    has_splits = True


class TakesABaseName(GuessTheNumberEnv):
    def new_game(self, rng):
        super().new_game(rng)
        self._base_player_seed = None


class TakesASetting(GuessTheNumberEnv):
    def new_game(self, rng):
        super().new_game(rng)
        self.rules = "observation"


class PeeksThroughTheClass(GuessTheNumberEnv):
    secret = 0

    def new_game(self, rng):
        super().new_game(rng)
        type(self).secret = self._target

    @staticmethod
    def solve(observations, moves):
        return str(PeeksThroughTheClass.secret)


class PeeksThroughItself(GuessTheNumberEnv):
    def solver_action(self):
        return self.oracle_action()


class NarrowPattern(GuessTheNumberEnv):
    def action_pattern(self):
        return "[0-9]"  # 10 to 20 are usable too


BROKEN = {
    CostlyTurns: "giving up does not pay",
    Sharing: "splits share nothing that a table could use",
    RefusesAndActs: "a refused move changes nothing",
    RefusesAndRolls: "a refused move changes nothing",
    DeepPotential: "the potential is in [0, 1]",
    RisingPotential: "the potential is in [0, 1]",
    NoPotentialNumber: "the potential is in [0, 1]",
    OneInstance: "there is more than one instance",
    PromisesSplits: "there is more than one instance",
    TakesABaseName: "the base's names are left alone",
    TakesASetting: "the base's names are left alone",
    PeeksThroughTheClass: "the solver reads only the transcript",
    PeeksThroughItself: "the solver reads only the transcript",
    NarrowPattern: "legal actions are usable and match the pattern",
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
def test_a_broken_rule_is_found_and_named(env_class, monkeypatch):
    rule = BROKEN[env_class]
    monkeypatch.setattr(checker, "CHECKS", {rule: CHECKS[rule]})
    with pytest.raises(ContractError, match=f"- {re.escape(rule)}: "):
        check_text_env(env_class())


def test_every_check_can_fail():
    assert set(BROKEN.values()) == set(CHECKS)


def test_a_sound_environment_passes_every_check():
    assert [check.passed for check in audit(Sound())] == [True] * len(CHECKS)


class UsesNamesOfItsOwn(GuessTheNumberEnv):
    """An author who never looked into the base; these names were its own once."""

    def new_game(self, rng):
        super().new_game(rng)
        self._moves = self._turn = self._observations = self._phi = self._missed = 0
        self._stop = self._screen = self._state = self._rules = self._info = self._format = None
        self._draw = self._how = self._shape = self._parse = self._knobs = self._player_rng = None


@pytest.mark.parametrize("invalid", ["feedback", "terminate"])
def test_a_game_that_costs_says_what_giving_up_costs(invalid):
    class Honest(CostlyTurns):
        worst_reward = -0.1

    env = Honest(invalid=invalid, max_turns=8)
    assert [check for check in audit(env) if check.passed is False] == []
    env.reset(seed=0)
    rewards, done = [], False
    while not done:
        _, reward, done, _, info = env.step("?!")
        rewards.append(reward)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
    assert sum(rewards) == pytest.approx(-0.8)
    assert len(rewards) == (8 if invalid == "feedback" else 1)


def test_an_authors_own_attributes_do_not_break_the_base():
    assert [check.passed for check in audit(UsesNamesOfItsOwn())] == [True] * len(CHECKS)
    plain, own = GuessTheNumberEnv(shaping=True), UsesNamesOfItsOwn(shaping=True)
    assert plain.reset(seed=3) == own.reset(seed=3)
    for _ in range(3):
        assert plain.step(plain.solver_action()) == own.step(own.solver_action())


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

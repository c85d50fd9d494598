"""The checker: every check fails on an environment that breaks its rule, and only then."""

import itertools
import re
import sys

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


class HalfRestored(GuessTheNumberEnv):
    def restore(self, snapshot):
        left = self.turns_left
        super().restore(snapshot)
        self.turns_left = left


class RefusesAndDraws(GuessTheNumberEnv):
    def apply(self, move):
        outcome = super().apply(move)
        if not outcome[1]:
            self.on_refusal()
        return outcome

    def on_refusal(self):
        self.np_random.random()  # so the next episode is another one


class RefusesAndActs(RefusesAndDraws):
    def on_refusal(self):
        self._target = self.low


class OneInstance(GuessTheNumberEnv):
    def new_game(self, rng):
        super().new_game(rng)
        self._target = 7

    def swap_secret(self, rng):
        return False


class PeeksThroughTheClass(GuessTheNumberEnv):
    secret = 0

    def new_game(self, rng):
        super().new_game(rng)
        type(self).secret = self._target

    @staticmethod
    def solve(observations, moves):
        return str(PeeksThroughTheClass.secret)


def game(**changed):
    return type("Broken", (GuessTheNumberEnv,), changed)


BROKEN = {
    "giving up does not pay": [CostlyTurns],
    "train and test have no task in common": [Sharing],
    "a refused move changes nothing": [RefusesAndActs, RefusesAndDraws],
    "the potential is in [0, 1]": [
        game(potential=lambda self: -1e6),
        game(potential=lambda self: 2.0 if self.turns_left < 3 else 0.0),
        game(potential=lambda self: float("nan")),
    ],
    "there are enough instances": [OneInstance, game(has_splits=True)],
    "the solver reads only the transcript": [
        PeeksThroughTheClass,
        game(solver_action=lambda self: self.oracle_action()),
    ],
    "passes Gymnasium's own checker": [game(max_observation_chars=10)],
    "same seed and actions, same episode": [game(describe=lambda self: f"Turn {next(_clock)}.")],
    "no text raises": [Crashing],
    "flags, info and reward terms agree": [
        Dishonest,
        BothFlags,
        game(describe=lambda self: None),
        game(apply=lambda self, move: sys.exit(0)),
    ],
    "legal actions are usable and match the pattern": [
        game(legal_moves=lambda self: ["0", "1"]),
        game(action_pattern=lambda self: "[a-z]+"),
        game(action_pattern=lambda self: "[0-9]"),  # 10 to 20 are usable too
    ],
    "oracle_move wins as often as oracle_value() says": [
        game(oracle_move=lambda self: str(self.low))
    ],
    "a random player is below the solver": [game(solve=staticmethod(lambda texts, moves: "1"))],
    "observations do not depend on hidden state": [
        game(describe=lambda self: f"Turns left: {self.turns_left}. Parity: {self._target % 2}.")
    ],
    "a snapshot restores exactly": [HalfRestored],
    "the same task has the same instance_id": [game(instance=lambda self: self._base_turn)],
}


@pytest.mark.parametrize(
    ("rule", "env_class"), [(rule, each) for rule, kinds in BROKEN.items() for each in kinds]
)
def test_each_check_fails_on_its_broken_environment(rule, env_class, monkeypatch):
    monkeypatch.setattr(checker, "CHECKS", {rule: CHECKS[rule]})
    with pytest.raises(ContractError, match=f"- {re.escape(rule)}: "):
        check_text_env(env_class())


def test_every_check_can_fail_and_a_sound_environment_passes_all():
    assert set(BROKEN) == set(CHECKS)
    assert [check.passed for check in audit(Sound())] == [True] * len(CHECKS)


class UsesNamesOfItsOwn(GuessTheNumberEnv):
    """Attribute names that the base class once used itself."""

    def new_game(self, rng):
        super().new_game(rng)
        self._moves = self._turn = self._observations = self._phi = self._missed = 0
        self._stop = self._screen = self._state = self._rules = self._info = self._format = None
        self._draw = self._how = self._shape = self._parse = self._knobs = self._player_rng = None


@pytest.mark.parametrize("invalid", ["feedback", "terminate"])
def test_worst_reward_is_the_price_of_giving_up(invalid):
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


def test_an_authors_attribute_names_do_not_break_the_base_class():
    assert [check.passed for check in audit(UsesNamesOfItsOwn())] == [True] * len(CHECKS)
    plain, own = GuessTheNumberEnv(shaping=True), UsesNamesOfItsOwn(shaping=True)
    assert plain.reset(seed=3) == own.reset(seed=3)
    for _ in range(3):
        assert plain.step(plain.solver_action()) == own.step(own.solver_action())


class Foreign(gym.Env):
    """A text environment on plain Gymnasium."""

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
    assert checks["oracle_move wins as often as oracle_value() says"] is None
    check_text_env(Foreign())

"""TextEnv: what the base does for a game, shown on a game of ten lines."""

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ActionTypeError, ConfigError, ContractError
from llm_gym.core.game import Game
from llm_gym.core.infos import reward_terms
from llm_gym.core.outcome import StopReason, end, go_on, lose, reject, stop_reason, win
from llm_gym.envs.deduction.minesweeper import MinesweeperEnv
from llm_gym.episodes import Trajectory
from llm_gym.evaluate.result import Evaluation


class Door(TextEnv):
    """Say `in` to win, `out` to lose, `wait` to go on."""

    max_turns = 3

    def __init__(self, *, step_size=1, **common):
        self.step_size = step_size
        super().__init__(**common)

    @classmethod
    def at_difficulty(cls, difficulty):
        return {"step_size": 1 + round(9 * difficulty)}

    def new_game(self, rng):
        self.progress, self.number = 0, int(rng.integers(10**6))

    def rules_text(self):
        return f"Say in, out or wait. A step is {self.step_size}."

    def example_moves(self):
        return ["wait", "in"]

    def describe(self):
        return f"Progress {self.progress}."

    def apply(self, move):
        if move == "in":
            return win("You are in.")
        if move == "out":
            return lose("You are out.")
        if move == "wait":
            self.progress += self.step_size
            return go_on("Tick.")
        return reject("Say in, out or wait.")

    def reveal(self):
        return "The door was open."

    def instance(self):
        return self.number

    def legal_moves(self):
        return ["in", "out", "wait"]

    def potential(self):
        return 1.0 - 1.0 / (1 + self.progress)


def make(seed=0, **kwargs):
    env = Door(**kwargs)
    env.reset(seed=seed)
    return env


def test_winning_pays_one_and_terminates():
    obs, reward, terminated, truncated, info = make().step("in")
    assert (obs, reward, terminated, truncated) == ("You are in.", 1.0, True, False)
    assert info == {
        "move": "in",
        "reader": "format",
        "valid_action": True,
        "success": True,
        "stop_reason": StopReason.WON,
        "reward_terms": {"success": 1.0},
        "turn": 1,
        "invalid_actions": 0,
    }


def test_a_game_may_end_without_being_won_or_lost():
    class Draw(Door):
        def apply(self, move):
            return end("Nobody wins.", StopReason.DRAWN, 0.5)

    env = Draw()
    env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step("in")
    assert (obs, reward, terminated, truncated) == ("Nobody wins.", 0.5, True, False)
    assert (info["stop_reason"], info["success"]) == (StopReason.DRAWN, False)


@pytest.mark.parametrize(
    ("moves", "text"),
    [
        (["out"], "You are out."),
        (["wait"] * 3, "Tick. No turns left: you lost. The door was open."),
    ],
)
def test_losing_by_a_move_or_by_the_turn_limit_pays_nothing_and_terminates(moves, text):
    env = Door()
    assert "You have 3 turns." in env.reset(seed=0)[0]
    *_, (obs, reward, terminated, truncated, info) = [env.step(move) for move in moves]
    assert (obs, reward, terminated, truncated) == (text, 0.0, True, False)
    assert info["stop_reason"] is StopReason.LOST


@pytest.mark.parametrize(
    ("settings", "moves", "turns", "stop"),
    [
        ({}, ["wait", "wait", "in"], [1, 2, 3], StopReason.WON),
        # The third miss costs the turn, then counting begins again.
        ({"retries": 2}, ["jump"] * 4 + ["wait"], [0, 0, 1, 1, 2], StopReason.PLAYING),
        ({"retries": 1}, ["x", "wait", "x", "wait"], [0, 1, 1, 2], StopReason.PLAYING),
        ({"invalid": "terminate"}, ["jump"], [1], StopReason.INVALID),
        ({"invalid": "terminate", "retries": 1}, ["jump", "jump"], [0, 1], StopReason.INVALID),
    ],
)
def test_unusable_moves_cost_turns_after_the_retries(settings, moves, turns, stop):
    env = make(**settings)
    for _ in range(2):  # a new episode has all its retries
        steps = [env.step(move) for move in moves]
        assert [step[4]["turn"] for step in steps] == turns
        assert steps[-1][2:4] == (stop is not StopReason.PLAYING, False)
        assert steps[-1][4]["stop_reason"] is stop
        env.reset()


def test_an_unusable_move_is_explained_and_costs_a_turn_and_the_penalty():
    obs, reward, terminated, _, info = make().step("jump")
    assert obs == "Say in, out or wait.\nProgress 0."
    assert (reward, terminated) == (0.0, False)
    assert (info["valid_action"], info["turn"], info["invalid_actions"]) == (False, 1, 1)
    env = make(penalty=0.25)
    _, reward, *_, info = env.step("jump")
    assert reward == -0.25
    assert info["reward_terms"] == {"success": 0.0, "invalid": -0.25}
    assert "costs 0.25 points" in env._base_rules()


def test_the_random_player_is_seeded_by_reset():
    env = make()
    played = []
    for seed in (3, 3, None):
        env.reset(seed=seed)
        played.append([env.random_action() for _ in range(20)])
    assert played[0] == played[1] != played[2]


def test_the_move_in_the_info_is_a_plain_string():
    for action in (np.str_("wait"), np.str_(" wait ")):
        move = make().step(action)[4]["move"]
        assert (type(move), move) == (str, "wait")


def test_a_reply_without_a_move_or_beyond_the_limit_is_refused():
    obs, *_ = make(action_format="tag").step("Hm.")
    assert "<action>wait</action>" in obs
    assert make().step("x" * 1001)[0].startswith("A move has at most 1000 characters.")


def test_the_longest_move_may_follow_from_settings_and_instances():
    class Short(Door):
        def check_settings(self):
            self.max_move_chars = 3 * self.step_size

    class Drawn(Door):
        def new_game(self, rng):
            super().new_game(rng)
            self.max_move_chars = 3

    for env in (Short(), Drawn()):
        env.reset(seed=0)
        assert env.step("wait")[0].startswith("A move has at most 3 characters.")
    env = Short()
    env.reset(options={"difficulty": 1.0})
    assert env.step("wait")[4]["valid_action"]


def test_shaping_is_the_change_of_potential():
    env = make(shaping=True, shaping_gamma=0.5)
    _, reward, *_, info = env.step("wait")
    assert info["reward_terms"]["shaping"] == pytest.approx(0.5 * 0.5)
    assert reward == pytest.approx(0.25)
    assert env.step("in")[4]["reward_terms"]["shaping"] == pytest.approx(-0.5), "terminal Φ is 0"
    assert "shaping" not in make().step("wait")[4]["reward_terms"]


@pytest.mark.parametrize("phi", [-0.1, 1.1, -1e6, float("nan"), float("inf")])
def test_a_potential_outside_its_range_is_refused(phi):
    env = Door(shaping=True)
    env.potential = lambda: phi
    with pytest.raises(ContractError, match="potential"):
        env.reset(seed=0)


class Nameless(Door):
    instance = Game.instance


def test_a_game_that_names_no_instance_has_no_splits():
    assert Door().has_splits
    env = Nameless()
    assert not env.has_splits
    with pytest.raises(ConfigError, match="instance"):
        env.reset(seed=0, options={"split": "test"})


def test_stepping_out_of_order_or_with_token_ids_is_refused():
    with pytest.raises(ResetNeeded, match="has not begun"):
        Door().step("in")
    env = make()
    env.step("in")
    with pytest.raises(ResetNeeded, match="is over"):
        env.step("in")
    with pytest.raises(ActionTypeError, match="decode"):
        make().step([1, 2, 3])


def test_render_returns_prints_or_warns(capsys):
    env = make(render_mode="ansi")
    env.step("wait")
    assert env.render() == "> wait\nTick.\nProgress 1."
    env = make(render_mode="human")
    env.step("\ud800")
    assert env.render() is None
    assert "Progress 0." in capsys.readouterr().out
    with pytest.warns(UserWarning, match="render_mode"):
        make().render()


def test_missing_players_raise_not_implemented():
    for name in ("oracle_action", "solver_action"):
        with pytest.raises(NotImplementedError):
            getattr(make(), name)()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"rules": "nowhere"}, "rules"),
        ({"rules": 1}, "rules"),
        ({"invalid": None}, "invalid"),
        ({"invalid": "ignore"}, "invalid"),
        ({"penalty": -1}, "penalty"),
        ({"retries": -1}, "retries"),
        ({"shaping_gamma": 1.5}, "shaping_gamma"),
        ({"action_format": "xml"}, "action_format"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"difficulty": 2.0}, "difficulty"),
        ({"difficulty": 0.5, "step_size": 3}, "difficulty sets step_size; got difficulty=0.5"),
    ],
)
def test_bad_settings_are_named_with_their_value(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Door(**kwargs)


UNREADABLE = ["no", None, [], {"at": 1}, np.array([True, False]), np.str_("no"), len]


@pytest.mark.parametrize("value", UNREADABLE, ids=repr)
def test_an_unreadable_success_counts_as_no_outcome(value):
    info = {"success": value, "valid_action": value, "reward_terms": value}
    episode = Trajectory(
        states=["?", "!"], actions=["hm"], rewards=[0.0], dones=[True], infos=[info]
    )
    assert stop_reason(True, False, info) is StopReason.FINISHED is episode.stop_reason
    assert not episode.success
    assert episode.reward_terms == [{}] or value == {"at": 1}
    result = Evaluation("theirs", [episode], 1, 1.0)
    assert result.invalid == 0.0
    assert result.without_outcome == 1, "the summary counts episodes without an outcome"


@pytest.mark.parametrize("yes", [True, 1, 1.0, np.True_, np.float32(1)])
def test_numbers_and_numpy_booleans_mean_success(yes):
    assert stop_reason(True, False, {"success": yes}) is StopReason.WON


def test_reward_terms_keep_only_numbers():
    terms = {"goal": np.float32(0.5), ("a", 1): 2, "why": "near", "each": np.ones(2), "none": None}
    assert reward_terms({"reward_terms": terms}) == {"goal": 0.5, "('a', 1)": 2.0}


@pytest.mark.parametrize(
    "name",
    [
        *("oracle_action", "solver_action", "random_action", "reflex_action", "legal_actions"),
        *("action_pattern", "state_key"),
    ],
)
def test_players_and_keys_need_an_episode(name):
    game = MinesweeperEnv()
    with pytest.raises(ResetNeeded, match="the episode has not begun"):
        getattr(game, name)()
    game.reset(seed=0, options={"split": "test"})
    getattr(game, name)()

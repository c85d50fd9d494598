"""AsText: what the player is told, what reaches the environment, and what does not."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit

from llm_gym.as_text import ensure_text
from llm_gym.as_text.phrasebooks import Phrasebook, Unusable
from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.errors import ActionTypeError, ConfigError, ContractError
from llm_gym.wrappers import AsText
from tests.as_text.plain_envs import Corridor, Echo

NONSENSE = "I would rather not."


def started(env=None, **settings):
    made = AsText(env or Corridor(), **settings)
    made.reset(seed=0)
    return made


def test_names_story_and_rewards_come_from_the_docstring():
    text, info = AsText(Corridor()).reset(seed=0)
    assert "A corridor with five rooms. The exit is on the right." in text
    assert "One point at the exit." in text
    assert "Your move is one of: go left, stay, go right." in text
    assert text.endswith("\n\n0")
    assert "system_prompt" not in info


def test_the_limit_of_the_spec_is_told():
    assert "cut after 200 moves" in AsText(gym.make("MountainCar-v0")).reset(seed=0)[0]


@pytest.mark.parametrize("text", ["go right", "Go  RIGHT.", "2", "Hm. Left?\n\n`go right`"])
def test_an_action_is_named_or_numbered(text):
    env = started()
    observation, reward, terminated, truncated, info = env.step(text)
    assert env.unwrapped.steps == [2]
    assert type(env.unwrapped.steps[0]) is type(env.unwrapped.action_space.sample())
    assert (observation, reward, terminated, truncated) == ("1", 0.0, False, False)
    assert info["valid_action"]


def test_the_end_is_the_environments_own():
    env = started(rules="system")
    *_, last = [env.step("go right") for _ in range(4)]
    assert last[:4] == ("4\nThe episode is over.", 1.0, True, False)
    assert last[4]["stop_reason"] is StopReason.FINISHED
    assert "success" not in last[4], "nobody can say"
    with pytest.raises(ResetNeeded, match="is over"):
        env.step("go right")


def test_keys_of_the_environment_are_never_overwritten():
    own = {"turn": "black's", "move": 7, "success": True, "stop_reason": "mine", "x": [1]}
    env = AsText(Corridor(own))
    assert env.reset(seed=0)[1].items() >= own.items()
    info = env.step("go right")[4]
    assert info.items() >= own.items()
    assert info["valid_action"] is True
    assert info["reward_terms"] == {"reward": 0.0}


def test_a_cut_of_the_environment_stays_a_cut():
    env = started(TimeLimit(Corridor(), 2))
    env.step("stay")
    text, _, terminated, truncated, info = env.step("stay")
    assert (text, terminated, truncated) == ("0", False, True)
    assert info["stop_reason"] is StopReason.MAX_STEPS


# --- texts that cannot be used ---------------------------------------------------------------


def test_an_unusable_text_is_answered_and_the_fallback_is_played():
    env = started(rules="system")
    text, reward, terminated, truncated, info = env.step(NONSENSE)
    assert text == "Your move must be one of: go left, stay, go right. I play stay for you.\n0"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.unwrapped.steps == [1]
    assert (info["valid_action"], info["invalid_actions"], info["turn"]) == (False, 1, 1)
    assert (info["move"], info["fallback"]) == (NONSENSE, "stay")
    assert "For an unusable reply I play stay" in env.system_prompt


def test_what_the_fallback_earns_is_not_paid_and_its_win_is_none():
    env = started(Corridor({"is_success": True}), fallback="go right")
    *_, last = [env.step(NONSENSE) for _ in range(4)]
    _, reward, terminated, _, info = last
    assert (reward, terminated, info["reward_terms"]) == (0.0, True, {"reward": 0.0})
    assert (info["success"], info["stop_reason"]) == (False, StopReason.LOST)
    assert "is_success" not in info


@pytest.mark.parametrize(
    ("env_id", "turns", "total"),
    [("MountainCar-v0", 200, -200.0), ("Acrobot-v1", 500, -500.0), ("Taxi-v4", 200, -200.0)],
)
def test_nonsense_costs_as_much_as_playing(env_id, turns, total):
    env = started(gym.make(env_id))
    rewards, done = [], False
    while not done:
        _, reward, terminated, truncated, info = env.step(NONSENSE)
        rewards.append(reward)
        done = terminated or truncated
    assert (len(rewards), sum(rewards), info["success"]) == (turns, total, False)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1", "FrozenLake-v1"])
def test_nonsense_earns_nothing_where_time_is_paid(env_id):
    for seed in range(5):
        env = AsText(gym.make(env_id))
        env.reset(seed=seed)
        done = False
        while not done:
            _, reward, terminated, truncated, _ = env.step(NONSENSE)
            assert reward <= 0.0
            done = terminated or truncated


def test_without_a_fallback_nonsense_costs_what_the_worst_step_did():
    env = started(gym.make("MountainCar-v0"), invalid="feedback")
    assert env.step(NONSENSE)[1] == 0.0, "no step has been seen yet"
    env.step("push left")
    assert env.step(NONSENSE)[1] == -1.0
    assert env.step(NONSENSE)[4]["reward_terms"] == {"invalid": -1.0}


def test_the_fallback_is_legal():
    env = started(Corridor(mask=True, raises=True))
    assert env.step(NONSENSE)[4]["fallback"] == "go right", "to stay is masked"


def test_an_unusable_text_never_reaches_the_environment_where_that_is_asked_for():
    env = started(invalid="feedback")
    text, reward, terminated, truncated, info = env.step(NONSENSE)
    assert text == "Your move must be one of: go left, stay, go right.\n0"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.unwrapped.steps == []
    assert (info["valid_action"], info["invalid_actions"], info["turn"]) == (False, 1, 1)
    assert info["reward_terms"] == {}


def test_a_penalty_is_taken_and_listed():
    info = started(penalty=0.25, invalid="feedback").step(NONSENSE)
    assert info[1] == -0.25
    assert info[4]["reward_terms"] == {"invalid": -0.25}
    assert "costs 0.25 points" in AsText(Corridor(), penalty=0.25).reset()[0]


def test_nonsense_without_end_is_cut_and_not_rewarded_with_an_end():
    env = started(max_invalid=3, invalid="feedback")
    flags = [env.step(NONSENSE)[2:4] for _ in range(2)]
    assert flags == [(False, False)] * 2
    env.step("stay")
    text, _, terminated, truncated, info = env.step(NONSENSE)
    assert (terminated, truncated) == (False, True)
    assert info["stop_reason"] is StopReason.MAX_STEPS
    assert info["success"] is False
    assert text.endswith("\n0"), "a cut shows the state, for the value of what would have come"
    with pytest.raises(ResetNeeded):
        env.step("stay")


def test_an_unusable_text_can_end_the_episode():
    env = started(invalid="terminate", retries=1)
    assert env.step(NONSENSE)[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step(NONSENSE)
    assert (terminated, truncated) == (True, False)
    assert info["stop_reason"] is StopReason.INVALID


def test_retries_are_given_anew_every_turn_and_do_not_count():
    env = started(retries=1, max_invalid=1)
    assert "1 unusable replies per turn are forgiven" in AsText(Corridor(), retries=1).reset()[0]
    for _ in range(3):
        assert env.step(NONSENSE)[4]["turn"] == len(env.unwrapped.steps)
        assert not env.step("stay")[3]
    env.step(NONSENSE)
    assert env.step(NONSENSE)[3]


def test_no_success_is_claimed_for_an_episode_that_nonsense_ended():
    env = started(gym.make("MountainCar-v0"), max_invalid=1)
    assert env.step(NONSENSE)[4]["success"] is False  # a return of 0 is above its threshold


# --- success -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"is_success": True}, StopReason.WON),
        ({"is_success": np.False_}, StopReason.LOST),
        ({"success": np.True_}, StopReason.WON),
        ({"success": np.zeros(3)}, StopReason.FINISHED),
        ({"stop_reason": "drawn"}, StopReason.DRAWN),
        ({"stop_reason": ["odd"]}, StopReason.FINISHED),
    ],
)
def test_success_is_what_the_environment_says(own, reason):
    env = started(Corridor(own))
    *_, last = [env.step("2") for _ in range(4)]
    assert env._stop is reason
    assert all(last[4][key] is own[key] for key in own)


def reached_the_end(total, terminated, reward, info):
    return terminated and total > 0


@pytest.mark.parametrize("success", [reached_the_end, f"{__name__}:reached_the_end"])
def test_a_function_tells_success_where_the_environment_does_not(success):
    env = started(success=success)
    *_, last = [env.step("2") for _ in range(4)]
    assert (last[4]["success"], last[4]["stop_reason"]) == (True, StopReason.WON)


class SomebodysTextGame(gym.Env):
    """Speaks text and pays 1 for a win, and says no more than that."""

    observation_space = action_space = AnyText(100)

    def reset(self, *, seed=None, options=None):
        return "say hi", {}

    def step(self, action):
        return "bye", float(action == "hi"), True, False, {}


def test_a_text_game_of_somebody_else_counts_as_won_by_a_function():
    env = ensure_text(SomebodysTextGame(), success=reached_the_end)
    for said, won in (("hi", True), ("ho", False)):
        env.reset(seed=0)
        info = env.step(said)[4]
        assert (info["success"], info["stop_reason"] is StopReason.WON) == (won, won)


@pytest.mark.parametrize("success", ["nowhere", "no.such.module:x", "math:nothing", 3])
def test_a_success_that_is_no_function_is_refused(success):
    with pytest.raises(ConfigError, match="success"):
        AsText(Corridor(), success=success)


class TwoGoals(Corridor):
    reward_space = gym.spaces.Box(0, 1, (2,))

    def step(self, action):
        room, reward, *rest = super().step(action)
        return room, np.array([reward, -0.5]), *rest


def test_a_vector_of_rewards_needs_weights():
    with pytest.raises(ConfigError, match=r"pays a vector of 2 rewards; .* weights=\[1.0, 1.0\]"):
        AsText(TwoGoals())
    with pytest.raises(ConfigError, match="weights must have 2 numbers"):
        AsText(TwoGoals(), weights=[1.0])
    env = started(TwoGoals(), weights=[10.0, 1.0])
    *_, last = [env.step("2") for _ in range(4)]
    assert last[1] == 9.5
    assert last[4]["reward_vector"].tolist() == [1.0, -0.5]


def test_the_threshold_of_the_spec_tells_success():
    env = AsText(gym.make("CartPole-v1", max_episode_steps=9))
    env.env.spec.reward_threshold = 9
    for threshold, success in ((9.0, True), (9.5, False)):
        env.book.env.spec.reward_threshold = threshold
        env.reset(seed=3)
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(env.random_action())
            done = terminated or truncated
        assert info["turn"] == 9
        assert info["success"] is success


# --- words of one's own ------------------------------------------------------------------------


def test_three_functions_replace_the_words():
    env = AsText(
        Corridor(),
        system_prompt="Leave.",
        describe=lambda room, info: f"Room {room} of {info['rooms']}.",
        parse={"back": 0, "forth": 2}.get,
    )
    env.unwrapped.own = {"rooms": 5}
    text, info = env.reset(seed=0)
    assert text == "Room 0 of 5."
    assert info["system_prompt"] == env.system_prompt == "Leave."
    assert env.step("forth")[0] == "Room 1 of 5."
    assert env.step("go right")[0] == "I cannot use that move.\nRoom 1 of 5."
    for _ in range(2):
        env.step("forth")
    assert env.step("forth")[0] == "Room 4 of 5.", "nothing is added to a function's words"


@pytest.mark.parametrize("text", ["", "x", "9" * 5000, "7", "-1"])
def test_a_parse_function_may_raise_or_lead_outside_the_space(text):
    env = started(parse=int)
    observation, *_, info = env.step(text)
    assert not info["valid_action"]
    assert observation in env.observation_space
    assert env.unwrapped.steps == []
    assert env.step("2")[4]["valid_action"]


def test_what_parse_raises_is_told():
    def parse(text):
        raise RuntimeError("the door is locked")

    assert "the door is locked" in started(parse=parse).step("x")[0]


def test_with_a_parse_function_the_action_space_may_be_any():
    sequence = gym.spaces.Sequence(gym.spaces.Discrete(3))
    with pytest.raises(ConfigError, match="pass parse="):
        AsText(Echo(action_space=sequence))
    env = started(Echo(action_space=sequence), parse=lambda text: tuple(map(int, text.split())))
    assert env.step("1 2 0")[4]["valid_action"]
    assert env.unwrapped.got == [(1, 2, 0)]
    assert env.legal_actions() is None
    assert env.action_pattern()
    with pytest.raises(NotImplementedError, match="no random move"):
        env.random_action()


def test_a_description_that_is_no_text_is_the_authors_mistake():
    with pytest.raises(ContractError, match="describe must return a str, got int"):
        AsText(Corridor(), describe=lambda room, info: room).reset()


class Loud(Phrasebook):
    names = ("back", "wait", "forth")

    def describe(self, observation, info):
        return f"ROOM {observation}!"

    def parse(self, move):
        if move == "jump":
            raise Unusable("You cannot jump.")
        if move == "fly":
            return {}["wings"]
        return super().parse(move)


def test_a_phrasebook_may_be_given_and_names_itself_in_the_spec():
    env = started(phrasebook=Loud)
    assert env.step("forth")[0] == "ROOM 1!"
    assert env.step("jump")[0] == "You cannot jump.\nROOM 1!"
    assert env.step("fly")[0] == "I cannot use that move: 'wings'\nROOM 1!"
    plain = AsText(gym.make("CartPole-v1"), phrasebook="llm_gym.as_text.phrasebooks:Phrasebook")
    assert "Pole Angle" in plain.reset(seed=0)[0], "the label of the docstring"
    assert plain.spec.additional_wrappers[-1].kwargs["phrasebook"].endswith(":Phrasebook")


# --- masks -------------------------------------------------------------------------------------


def test_legal_moves_come_from_the_action_mask():
    env = AsText(Corridor(mask=True), rules="system")
    assert env.reset(seed=0)[0] == "0\nLegal moves: go right."
    assert env.legal_actions() == ["go right"]
    assert {env.random_action() for _ in range(20)} == {"go right"}
    assert env.action_pattern() == r"(?:go\ right)"
    env.step("go right")
    assert env.legal_actions() == ["go left", "go right"]
    assert "action_mask" in env.step(NONSENSE)[4], "it still holds"


def test_a_masked_action_is_played_or_refused():
    env = started(Corridor(mask=True))
    assert env.step("stay")[4]["valid_action"]
    env = started(Corridor(mask=True, raises=True), masked="refuse")
    text, *_, info = env.step("1")
    assert "not possible now. Legal moves: go right." in text
    assert not info["valid_action"]
    assert env.step("go right")[4]["valid_action"]


def test_a_mask_of_another_shape_is_ignored():
    for mask in (np.ones(7), "all", None, np.zeros(3), [[1], [0]]):
        env = started(Corridor({"action_mask": mask}))
        assert env.legal_actions() == ["go left", "stay", "go right"]
        assert env.step("go right")[0] == "1"


# --- the rest of the contract ------------------------------------------------------------------


def test_rules_are_told_once_wherever_they_go():
    told, _ = AsText(Corridor()).reset(seed=0)
    quiet = AsText(Corridor(), rules="system")
    state, info = quiet.reset(seed=0)
    assert told == f"{info['system_prompt']}\n\n{state}"
    assert AsText(Corridor()).system_prompt == ""


@pytest.mark.parametrize("action_format", ["tag", "boxed", "json", "react"])
def test_formats_are_shown_and_read(action_format):
    env = started(action_format=action_format)
    example = env.action_space.sample()
    assert example in env.legal_actions()
    assert (
        env._format.render("go left") in AsText(Corridor(), action_format=action_format).reset()[0]
    )
    assert env.step(f"<think>go left</think>{example}")[4]["valid_action"]
    assert env.step("go right")[4]["reader"] == "last line"
    assert "I found no move" in env.step("Hm.")[0]
    strict = started(action_format=action_format, strict=True)
    assert "I found no move" in strict.step("go right")[0]


def test_seed_and_options_are_the_environments():
    env = AsText(Corridor(), rules="system")
    assert env.reset(seed=1, options={"at": 3})[0] == "3"
    assert env.unwrapped.np_random_seed == 1


def test_long_descriptions_are_cut_and_marked():
    env = AsText(Corridor(), describe=lambda *_: "word " * 1000, max_observation_chars=300)
    text, _ = env.reset()
    assert len(text) == 300
    assert text.endswith(" ...")
    env.step("stay")
    assert all(env.step(action)[0] in env.observation_space for action in ("2", NONSENSE))


def test_only_text_is_an_action_and_only_in_an_episode():
    env = AsText(Corridor())
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("stay")
    env.reset()
    with pytest.raises(ActionTypeError, match="takes a str action, got int"):
        env.step(1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rules": "nowhere"}, "rules must be 'observation' or 'system', got 'nowhere'"),
        ({"invalid": "ignore"}, "invalid must be 'fallback' or 'feedback' or 'terminate'"),
        ({"masked": "hide"}, "masked must be 'play' or 'refuse'"),
        ({"penalty": -1}, "penalty must be a number of at least 0"),
        ({"penalty": float("nan")}, "penalty must be a number of at least 0"),
        ({"retries": -1}, "retries must be a whole number of at least 0"),
        ({"max_invalid": 0}, "max_invalid must be a whole number of at least 1"),
        ({"max_invalid": True}, "max_invalid must be a whole number of at least 1"),
        ({"max_observation_chars": 10}, "max_observation_chars must be a whole number of at"),
        ({"action_format": "xml"}, "action_format must be one of plain, tag"),
        ({"describe": "a room"}, "describe must be a function"),
        ({"system_prompt": 3}, "system_prompt must be a str"),
        ({"parse": int, "masked": "refuse"}, "return None in parse to refuse a move"),
        ({"phrasebook": "words"}, "'module:Class', got 'words'"),
        ({"phrasebook": "nowhere:Words"}, "cannot be imported"),
        ({"phrasebook": Corridor}, "a phrasebook is a subclass of"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_one_sentence(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AsText(Corridor(), **settings)


def test_random_play_is_seeded_by_reset_and_disturbs_nothing():
    env = AsText(gym.make("FrozenLake-v1"))
    env.reset(seed=5)
    advice = [env.random_action() for _ in range(8)]
    first = [env.step("right")[0] for _ in range(1)]
    env.reset(seed=5)
    assert [env.random_action() for _ in range(8)] == advice
    assert len(set(advice)) > 1
    env.reset(seed=5)
    assert [env.step("right")[0] for _ in range(1)] == first

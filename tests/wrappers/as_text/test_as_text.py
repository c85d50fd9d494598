"""AsText: what the player reads, and which actions reach the environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit

from llm_gym.core.errors import ActionTypeError, ConfigError, ContractError
from llm_gym.core.outcome import StopReason
from llm_gym.reading.moves import find_phrases
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text.phrasebooks import Phrasebook, Unusable
from tests.wrappers.as_text.plain_envs import NONSENSE, Corridor, Echo, started


def test_names_description_and_rewards_come_from_the_docstring():
    text, info = AsText(Corridor()).reset(seed=0)
    assert "A corridor with five rooms. The exit is on the right." in text
    assert "One point at the exit." in text
    assert "Your move is one of: go left, stay, go right." in text
    assert text.endswith("\n\n0")
    assert "system_prompt" not in info
    assert "cut after 200 moves" in AsText(gym.make("MountainCar-v0")).reset(seed=0)[0]


@pytest.mark.parametrize("text", ["go right", "Go  RIGHT.", "2", "Hm. Left?\n\n`go right`"])
def test_an_action_is_named_or_numbered(text):
    env = started()
    observation, reward, terminated, truncated, info = env.step(text)
    assert env.unwrapped.steps == [2]
    assert type(env.unwrapped.steps[0]) is type(env.unwrapped.action_space.sample())
    assert (observation, reward, terminated, truncated) == ("1", 0.0, False, False)
    assert info["valid_action"]


def test_termination_is_the_environments_own():
    env = started(rules="system")
    *_, last = [env.step("go right") for _ in range(4)]
    assert last[:4] == ("4\nThe episode is over.", 1.0, True, False)
    assert last[4]["stop_reason"] is StopReason.FINISHED
    assert "success" not in last[4], "nothing decides it"
    with pytest.raises(ResetNeeded, match="is over"):
        env.step("go right")


def test_info_keys_and_truncation_of_the_environment_are_kept():
    own = {"turn": "black's", "move": 7, "success": True, "stop_reason": "mine", "x": [1]}
    env = AsText(Corridor(own))
    assert env.reset(seed=0)[1].items() >= own.items()
    info = env.step("go right")[4]
    assert info.items() >= own.items()
    assert info["valid_action"] is True
    assert info["reward_terms"] == {"reward": 0.0}
    env = started(TimeLimit(Corridor(), 2))
    env.step("stay")
    text, _, terminated, truncated, info = env.step("stay")
    assert (text, terminated, truncated) == ("0", False, True)
    assert info["stop_reason"] is StopReason.MAX_STEPS


def test_three_functions_replace_the_phrasebook():
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
    assert text != "x" or "invalid literal" in observation, "the message of its error is shown"
    assert not info["valid_action"]
    assert observation in env.observation_space
    assert env.unwrapped.steps == []
    assert env.step("2")[4]["valid_action"]


def test_a_parse_function_allows_any_action_space():
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


def test_a_given_phrasebook_is_used_and_named_in_the_spec():
    env = started(phrasebook=Loud)
    assert env.step("forth")[0] == "ROOM 1!"
    assert env.step("jump")[0] == "You cannot jump.\nROOM 1!"
    assert env.step("fly")[0] == "I cannot use that move: 'wings'\nROOM 1!"
    plain = AsText(
        gym.make("CartPole-v1"), phrasebook="llm_gym.wrappers.as_text.phrasebooks:Phrasebook"
    )
    assert "Pole Angle" in plain.reset(seed=0)[0], "the label of the docstring"
    assert plain.spec.additional_wrappers[-1].kwargs["phrasebook"].endswith(":Phrasebook")


def test_legal_moves_come_from_the_action_mask():
    env = AsText(Corridor(mask=True), rules="system")
    assert env.reset(seed=0)[0] == "0\nLegal moves: go right."
    assert env.legal_actions() == ["go right"]
    assert {env.random_action() for _ in range(20)} == {"go right"}
    assert env.action_pattern() == r"(?:go\ right)"
    env.step("go right")
    assert env.legal_actions() == ["go left", "go right"]
    assert "action_mask" in env.step(NONSENSE)[4], "it still holds"


def test_a_masked_action_is_played_or_refused_and_an_odd_mask_ignored():
    env = started(Corridor(mask=True))
    assert env.step("stay")[4]["valid_action"]
    env = started(Corridor(mask=True, raises=True), masked="refuse")
    text, *_, info = env.step("1")
    assert "not possible now. Legal moves: go right." in text
    assert not info["valid_action"]
    assert env.step("go right")[4]["valid_action"]
    for mask in (np.ones(7), "all", None, np.zeros(3), [[1], [0]], [[1], [0, 1], [1]], ["x"] * 3):
        env = started(Corridor({"action_mask": mask}))
        assert env.legal_actions() == ["go left", "stay", "go right"]
        assert env.step("go right")[0] == "1"
    pairs = AsText(Echo(action_space=gym.spaces.MultiDiscrete([2, 2]))).book
    assert pairs.legal_moves({"action_mask": ([1, 0], [1, 1])}) == ["0 0", "0 1"]
    for mask in (([1, 0], [1] * 5), ("ab", "cd"), ([1, 0], [[1], [0, 1]])):
        assert len(pairs.legal_moves({"action_mask": mask})) == 4


def test_the_rules_are_in_the_observation_or_the_system_prompt_and_never_both():
    whole, _ = AsText(Corridor()).reset(seed=0)
    quiet = AsText(Corridor(), rules="system")
    state, info = quiet.reset(seed=0)
    assert whole == f"{info['system_prompt']}\n\n{state}"
    assert AsText(Corridor()).system_prompt == ""
    assert quiet.reset(seed=1, options={"at": 3})[0] == "3"
    assert quiet.unwrapped.np_random_seed == 1


@pytest.mark.parametrize("action_format", ["tag", "boxed", "json", "react"])
def test_formats_are_shown_and_read(action_format):
    env = started(action_format=action_format)
    example = env.action_space.sample()
    assert example in env.legal_actions()
    assert env.legal_actions()[0] in env.reset(seed=0)[0]
    assert env.step(f"<think>go left</think>{example}")[4]["valid_action"]
    assert env.step("go right")[4]["reader"] != "format"
    assert "I found no move" in env.step("Hm.")[0]
    strict = started(action_format=action_format, strict=True)
    assert "I found no move" in strict.step("go right")[0]


def test_long_observations_are_cut_and_marked():
    env = AsText(Corridor(), describe=lambda *_: "word " * 1000, max_observation_chars=300)
    text, _ = env.reset()
    assert (len(text), text[-4:]) == (300, " ...")
    assert all(env.step(action)[0] in env.observation_space for action in ("2", NONSENSE))
    with pytest.raises(ContractError, match="describe"):
        AsText(Corridor(), describe=lambda room, info: room).reset()


def test_only_text_is_an_action_and_only_in_an_episode():
    env = AsText(Corridor())
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("stay")
    env.reset()
    with pytest.raises(ActionTypeError, match="str"):
        env.step(1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rules": "nowhere"}, "rules"),
        ({"invalid": "ignore"}, "invalid"),
        ({"masked": "hide"}, "masked"),
        ({"penalty": -1}, "penalty"),
        ({"penalty": float("nan")}, "penalty"),
        ({"retries": -1}, "retries"),
        ({"max_invalid": 0}, "max_invalid"),
        ({"max_invalid": True}, "max_invalid"),
        ({"max_observation_chars": 10}, "max_observation_chars"),
        ({"action_format": "xml"}, "action_format"),
        ({"describe": "a room"}, "describe"),
        ({"system_prompt": 3}, "system_prompt"),
        ({"parse": int, "masked": "refuse"}, "parse"),
        ({"phrasebook": "words"}, "phrasebook must be .* got 'words'"),
        ({"phrasebook": "nowhere:Words"}, "cannot import nowhere"),
        ({"phrasebook": Corridor}, "phrasebook"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        AsText(Corridor(), **settings)


@pytest.mark.parametrize("info", [None, [1], "x"])
def test_an_info_that_is_no_dictionary_raises(info, monkeypatch):
    env = started()
    monkeypatch.setattr(env.unwrapped, "_info", lambda: info)
    with pytest.raises(ContractError, match=r"Corridor\.step"):
        env.step("0")
    with pytest.raises(ContractError, match=r"Corridor\.reset"):
        env.reset(seed=0)


def read(env_id, reply):
    env = started(gym.make(env_id))
    info = env.step(reply)[4]
    return info["move"] if info["valid_action"] else None


@pytest.mark.parametrize(
    ("env_id", "reply", "move"),
    [
        ("CartPole-v1", "It is left.", "push left"),
        ("CartPole-v1", "I push the cart to the left.", "push left"),
        ("CartPole-v1", "The pole leans to the left, so I push left.", "push left"),
        ("CartPole-v1", "It is falling left. I move the cart right.", "push right"),
        ("FrozenLake-v1", "I go north.", "up"),
        ("FrozenLake-v1", "The right move is **down**, I think.", "down"),
        *(("FrozenLake-v1", reply, "left") for reply in (
            "I turn left.", "Turn left", "I take one step left.", "I step left.",
            "I move one cell left.", "I go one step to the left.",
        )),
        *(("FrozenLake-v1", reply, "down") for reply in (
            "Down to the goal!", "I'll step down for safety.", "I'll go down to avoid the hole.",
            "I move down to get closer to the goal.", "I go down the board.",
            "I move down on the grid.",
        )),
        ("FrozenLake-v1", "I go up the board for now.", "up"),
        ("MountainCar-v0", "I would rather go right than left.", "push right"),
        ("Blackjack-v1", "I stand, as 19 is enough.", "stick"),
        # An idiom is no direction, and what describes the state is no move.
        *(("FrozenLake-v1", reply, None) for reply in (
            "I give up.", "All right, let me see.", "The right choice is unclear to me.",
            "That's right.", "I have 3 moves left.", "Turns left: 5", "3 turns left",
            "I have one step left.", "left: 2", "It comes down to luck.", "It is up to you.",
            "What is left to do is unclear.", "I end up here.", "The top left corner is mine.",
            "The goal is at the bottom right.",
        )),
        *(("CartPole-v1", reply, None) for reply in (
            "The pole leans left.", "The angle is 1.", "right: bad",
        )),
    ],
)  # fmt: skip
def test_moves_are_read_in_sentences(env_id, reply, move):
    assert read(env_id, reply) == move


@pytest.mark.parametrize(
    ("env_id", "first", "second"),
    [("Acrobot-v1", "1", "2"), ("MountainCarContinuous-v0", "0.5", "-0.25")],
)
def test_two_numbers_are_no_choice(env_id, first, second):
    for reply in ("1. {}\n2. {}", "Action: {}\nAction: {}", "{}, {}", "Answer: {}, {}"):
        assert read(env_id, reply.format(first, second)) is None, reply
    assert read(env_id, f"Answer: {first}") is not None


def test_a_move_of_several_words_is_found_inside_an_idiom():
    moves = ["turn left", "left", "pick up"]
    found = [move for *_, move in find_phrases("Turn left. Moves left: 3. I pick up.", moves)]
    assert found == ["turn left", "pick up"]

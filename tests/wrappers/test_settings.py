"""Settings of the wrong type are one sentence in every wrapper, by name and by place."""

import inspect

import gymnasium as gym
import pytest

from llm_gym import wrappers
from llm_gym.errors import ConfigError

NEEDED = {
    "MaxInvalid": {"max_invalid": 3},
    "TokenBudget": {"max_tokens": 9},
    "ToolUse": {"tools": []},
}
OWN = {"AsText", "EpisodeLimits"}
"""These say more of their settings than a type does, and have tests of their own."""
WRONG = {
    "int": (2.5, True, "x", [3]),
    "float": (True, "x", [0.5]),
    "bool": ("no", 2),
    "str": (5, ["a"]),
    "Callable[[str], int]": (5, "x"),
    "Callable[[list[dict[str, str]]], str]": (5, "x"),
}


def settings():
    for name in sorted({*wrappers.__all__} - OWN):
        cls = getattr(wrappers, name)
        own = inspect.signature(cls.__init__).parameters if inspect.isclass(cls) else {}
        for parameter in own.values():
            kind = str(parameter.annotation).removesuffix(" | None")
            yield from ((name, parameter.name, value) for value in WRONG.get(kind, ()))


@pytest.mark.parametrize(("name", "setting", "value"), [*settings()])
def test_a_setting_of_the_wrong_type_is_refused(name, setting, value, tmp_path):
    needed = NEEDED.get(name, {"path": tmp_path / "a.jsonl"} if name == "RecordEpisodes" else {})
    env = gym.make("llm_gym/GuessTheNumber-v0")
    with pytest.raises(ConfigError, match=rf"^{setting} must be .*, got"):
        getattr(wrappers, name)(env, **{**needed, setting: value})


def test_all_wrappers_with_settings_are_held_to_them():
    assert {name for name, *_ in settings()} >= {
        "ChatObservation", "FormatReward", "MaxInvalid", "RecordEpisodes", "TokenBudget",
        "ToolUse", "TranscriptObservation",
    }  # fmt: skip


def test_a_setting_that_is_given_by_its_place_is_looked_at_too():
    env = gym.make("llm_gym/GuessTheNumber-v0")
    with pytest.raises(ConfigError, match=r"max_invalid must be a whole number, got 2\.5"):
        wrappers.MaxInvalid(env, 2.5)
    assert wrappers.MaxInvalid(env, 2).env is env

"""What holds for every wrapper: a spec that rebuilds it, a pickle, the checker, its settings."""

import inspect
import pickle
import warnings

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from llm_gym import wrappers
from llm_gym.core.errors import ConfigError
from llm_gym.wrappers import (
    ChatObservation,
    EpisodeLimits,
    FormatReward,
    MaxInvalid,
    RecordEpisodes,
    TokenBudget,
    ToolUse,
    TranscriptObservation,
)
from tests.core.test_settings import WRONG
from tests.wrappers.guessing import guessing

# fmt: off
MADE = [
    (ChatObservation, {"system_prompt": "Be brief.", "max_turns": 3}),
    (EpisodeLimits, {"max_turns": 3}),
    (FormatReward, {"format": "[0-9]+", "penalty": 0.25, "ask": "Only digits."}),
    (MaxInvalid, {"max_invalid": 2, "in_a_row": False}),
    (TokenBudget, {"max_tokens": 7}),
    (ToolUse, {"tools": ["finish"], "parser": "react", "max_calls": 4, "call_cost": 0.25}),
    (TranscriptObservation, {"max_turns": 3, "max_chars": 500}),
]
REFUSED = [
    (ChatObservation, {"max_turns": 0}), (TranscriptObservation, {"max_turns": 0}),
    (TranscriptObservation, {"max_chars": 0}), (TokenBudget, {"max_tokens": 0}),
    (MaxInvalid, {"max_invalid": 0}), (FormatReward, {"penalty": 0}),
    (FormatReward, {"format": "("}), (ToolUse, {"call_cost": -1, "tools": []}),
    (ToolUse, {"max_calls": 1.5, "tools": []}), (ToolUse, {"parser": "morse", "tools": []}),
    (ToolUse, {"tools": None}), (ToolUse, {"tools": 3}),
    *((EpisodeLimits, {"max_turns": value}) for value in (0, True, 1.5)),
]
# fmt: on
each = pytest.mark.parametrize(("cls", "settings"), MADE, ids=[cls.__name__ for cls, _ in MADE])


@each
def test_a_wrapper_is_rebuilt_from_its_spec_and_its_pickle(cls, settings):
    env = cls(guessing(), **settings)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert type(again) is cls
    assert again.reset(seed=1) == env.reset(seed=1)
    for action in ("500", "what", "Action: finish\nAction Input: 250", "what", "100"):
        twin, step = pickle.loads(pickle.dumps(env)), env.step(action)
        assert again.step(action) == twin.step(action) == step
        if step[2] or step[3]:
            break


@each
def test_a_wrapper_passes_gymnasiums_checker(cls, settings):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*Not able to test alternative render modes.*")
        check_env(cls(guessing(), **settings))


@pytest.mark.parametrize(("cls", "settings"), REFUSED)
def test_a_bad_setting_is_refused_by_its_name(cls, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        cls(guessing(), **settings)


WRONG = WRONG | {
    "Callable[[str], int]": (5, "x"),
    "Callable[[list[dict[str, str]]], str]": (5, "x"),
}


def settings():
    for cls, given in [*MADE, (RecordEpisodes, {"path": "a.jsonl"})]:
        for parameter in inspect.signature(cls.__init__).parameters.values():
            kind = inspect.formatannotation(parameter.annotation).removesuffix(" | None")
            kind = kind.replace("collections.abc.", "")
            for value in WRONG.get(kind, ()):
                yield cls, parameter.name, {**given, parameter.name: value}


@pytest.mark.parametrize(("cls", "name", "given"), [*settings()])
def test_a_setting_of_the_wrong_type_is_refused(cls, name, given):
    with pytest.raises(ConfigError, match=rf"^{name} must be .*, got"):
        cls(guessing(), **given)


def test_every_wrapper_checks_its_settings():
    held = {cls.__name__ for cls, *_ in settings()}
    assert held == {*wrappers.__all__} - {"AsText", "StateInfo"}


def test_a_positional_setting_is_checked_too():
    env = guessing()
    with pytest.raises(ConfigError, match="max_invalid"):
        wrappers.MaxInvalid(env, 2.5)
    assert wrappers.MaxInvalid(env, 2).env is env

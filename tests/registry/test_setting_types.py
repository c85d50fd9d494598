"""What is typed as a setting is held against the types of our games, and lets all of them be."""

import inspect

import gymnasium as gym
import pytest

from llm_gym.errors import ConfigError
from llm_gym.registry.plugins import find_spec
from llm_gym.registry.setting_types import check_types
from llm_gym.registry.suite import ENVS


@pytest.mark.parametrize("row", ENVS, ids=lambda row: row.id)
def test_every_default_is_of_its_own_type(row):
    made = type(gym.make(row.id).unwrapped)
    defaults = {
        each.name: each.default
        for kind in made.__mro__
        if "__init__" in vars(kind)
        for each in inspect.signature(vars(kind)["__init__"]).parameters.values()
        if each.default is not each.empty
    }
    check_types(find_spec(row.id), defaults | find_spec(row.id).kwargs)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rooms": 3.5}, "rooms must be a whole number, got 3.5"),
        ({"rooms": True}, "rooms must be a whole number, got True"),
        ({"rooms": [3]}, r"rooms must be a whole number, got \[3\]"),
        ({"penalty": "high"}, "penalty must be a number, got 'high'"),
    ],
)
def test_another_type_is_refused_in_words(settings, said):
    with pytest.raises(ConfigError, match=said):
        check_types(find_spec("llm_gym/TextGame-v0"), settings)


def test_a_whole_number_is_a_number_and_annotations_of_others_are_no_promise():
    check_types(find_spec("llm_gym/TextGame-v0"), {"penalty": 1})
    check_types(find_spec("CartPole-v1"), {"sutton_barto_reward": "yes"})

"""Which settings a bridge takes as its own: what every command and the trainer rely on."""

import gymnasium as gym

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.as_text import split_settings
from llm_gym.as_text.env import text_source
from tests.bridges.each import ROWS, each_bridge


@each_bridge
def test_a_wish_for_rules_in_the_system_prompt_reaches_no_bridge_that_has_none(bridge):
    given = {"rules": "system", "action_format": "tag", "max_turns": 3, "seat": 1}
    own, words = split_settings(ROWS[bridge].id, given)
    if bridge == "PettingZoo":  # in words, so it has rules
        assert (own, words) == (given, {})
    else:
        assert words == {"rules": "system"}
        assert own == {name: given[name] for name in given if name != "rules"}


def test_many_remote_rows_stay_one_request_whatever_is_wished_for():
    source, settings = text_source("llm_gym/Remote-v0", {"rules": "system", "url": "http://x"})
    assert source is gym.spec("llm_gym/Remote-v0")
    assert settings == {"url": "http://x"}

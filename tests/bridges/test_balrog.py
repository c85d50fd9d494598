"""BALROG through the bridge, on a stand-in for it: BALROG itself is not on PyPI."""

import sys

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError
from llm_gym.evaluate.checker import HOSTILE, check_text_env
from llm_gym.registry.bridges import BRIDGES, installed

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("balrog")]
ROW = next(row for row in BRIDGES if "BALROG" in row.id)


def make(env_name="hall", **settings):
    return gym.make(ROW.id, env_name=env_name, task="flag", **settings).unwrapped


def test_the_player_reads_the_instructions_and_both_texts():
    text, _ = make().reset(seed=0)
    assert text.startswith("You are in a hall. Your mission: take the flag.")
    now, happened = text.index("Clock: 0."), text.index("The flag is")
    assert now < happened


def test_a_game_is_won_by_the_names_of_its_actions():
    env = make(config={"envs": {"hall_kwargs": {"max_steps": 200}}})
    env.reset(seed=3)
    flag = env._game.unwrapped.flag
    for _ in range(100):
        at = env._game.unwrapped.at
        move = "walk right" if at < flag else "take flag"
        _, reward, terminated, _, info = env.step(f"Let me see.\n{move}")
        if terminated:
            break
    assert (reward, info["success"], info["stop_reason"]) == (1.0, True, StopReason.WON)
    assert info["foreign"]["progression"] == 1.0


def test_a_reply_that_names_no_action_is_the_default_one_as_in_balrog():
    env = make()
    env.reset(seed=1)
    text, _, _, _, info = env.step("fly")
    assert not info["valid_action"]
    assert "'walk left' was played" in text
    assert env._game.failed_candidates == ["fly"]
    assert info["foreign"]["turn"] == 1


def test_the_games_own_limit_cuts_it():
    env = make()
    env.reset(seed=1)
    for _ in range(12):
        _, _, terminated, truncated, info = env.step("walk left")
    assert (terminated, truncated, info["stop_reason"]) == (False, True, StopReason.MAX_STEPS)


def test_the_actions_are_listed_where_they_can_be_counted():
    env = make()
    env.reset(seed=0)
    assert env.legal_actions() == ["walk left", "walk right", "take flag"]
    words = make("words")
    words.reset(seed=0)
    assert words.legal_actions() is None
    assert words.step("flag")[4]["success"]


def test_settings_reach_the_game_and_those_of_balrog_stay():
    env = make(config={"envs": {"hall_kwargs": {"length": 2}}})
    assert env._game.unwrapped.length == 2
    assert env._game.unwrapped.max_steps == env.max_turns == 12


def test_it_keeps_the_contract():
    check_text_env(make())


def test_no_text_raises():
    env = make("words", action_format="raw")
    for text in HOSTILE.values():
        env.reset(seed=0)
        env.step(text)
    assert env.step("flag")[4]["success"]


def test_what_cannot_be_made_is_one_sentence():
    with pytest.raises(ConfigError, match="BALROG cannot make flag of halls here: Unknown env"):
        make("halls")


def test_the_other_package_of_that_name_is_not_taken_for_it(monkeypatch, tmp_path):
    (tmp_path / "balrog").mkdir()
    (tmp_path / "balrog" / "__init__.py").write_text("class Policy: pass\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert not installed(ROW)
    with pytest.raises(ConfigError, match=r"needs balrog\. Install it with: pip install \"git"):
        make()

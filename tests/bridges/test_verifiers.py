"""Environments of verifiers through the bridge, with the real package: ``make test-bridges``."""

import asyncio

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.bridges.verifiers import _loop
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.checker import check_text_env

pytest.importorskip("verifiers")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("verifiers_envs")]


def make(env_id, **settings):
    return gym.make("llm_gym/Verifiers-v0", env_id=env_id, **settings).unwrapped


def test_several_turns_keep_the_contract_but_have_few_rows():
    with pytest.raises(AssertionError) as broken:
        check_text_env(make("tiny-guess"))
    assert str(broken.value).count("\n- ") == 1
    assert "one and the same instance" in str(broken.value) or "too few" in str(broken.value)


def test_the_rubric_scores_the_reply():
    env = make("tiny-sums")
    text, info = env.reset(seed=3)
    assert info["system_prompt"] == "Answer with a number."
    answer = env._row["answer"]
    assert text == env._row["prompt"][-1]["content"]
    _, reward, terminated, _, info = env.step(answer)
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    assert info["foreign"]["metrics"]["right"] == 1.0
    env.reset(seed=3)
    _, reward, terminated, _, info = env.step("no idea")
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, StopReason.LOST)


def test_several_turns_are_played_one_by_one():
    env = make("tiny-guess", env_args={"max_turns": 12})
    env.reset(seed=1)
    for guess in range(1, 11):
        text, reward, terminated, _, info = env.step(str(guess))
        if terminated:
            break
        assert text.startswith(f"Not {guess}. Roll: ")
    assert (reward, info["success"]) == (1.0, True)
    assert text == "You found it!"
    assert info["foreign"]["stop_condition"] == "has_final_env_response"


def test_the_limit_of_the_rollout_ends_it():
    env = make("tiny-guess", env_args={"max_turns": 2})
    env.reset(seed=1)
    env.step("0")
    _, reward, terminated, _, info = env.step("0")
    assert (reward, terminated) == (0.0, True)
    assert info["foreign"]["stop_condition"] == "max_turns_reached"


@pytest.mark.parametrize("word", ["crash", "boom"])
def test_a_rollout_that_dies_is_cut_and_the_next_one_plays(word):
    env = make("tiny-guess")
    env.reset(seed=1)
    text, _, terminated, truncated, info = env.step(word)
    assert (terminated, truncated) == (False, True)
    assert info["stop_reason"] is StopReason.ERROR
    assert "failed" in text
    env.reset(seed=1)
    assert env.step("0")[0].startswith("Not 0")


def test_the_rows_for_evaluation_are_the_test_split():
    env = make("tiny-sums")
    for seed in range(20):
        text, _ = env.reset(seed=seed, options={"split": "test"})
        assert int(text.split()[0]) >= 1000
        text, _ = env.reset(seed=seed, options={"split": "train"})
        assert int(text.split()[0]) < 1000


def test_an_episode_that_is_left_leaves_nothing_behind():
    env = make("tiny-guess")
    env.reset(seed=0)
    before = len(asyncio.all_tasks(_loop()))
    for seed in range(50):
        env.reset(seed=seed)
        env.step("0")
    assert len(asyncio.all_tasks(_loop())) == before
    env.close()
    env.close()
    assert len(asyncio.all_tasks(_loop())) == before - 1


def test_environments_of_the_same_arguments_share_their_data_and_say_nothing(capfd):
    first, second = make("tiny-sums", env_args={"size": 150}), make("tiny-sums")
    third = make("tiny-sums", env_args={"size": 150})
    assert first._game is third._game
    assert first._game is not second._game
    assert (len(first._rows), len(second._rows)) == (150, 200)
    assert capfd.readouterr() == ("", "")


def test_it_plays_inside_a_running_loop():
    async def notebook():
        env = make("tiny-sums")
        env.reset(seed=0)
        return env.step(env._row["answer"])[1]

    assert asyncio.run(notebook()) == 1.0


def test_what_cannot_be_loaded_is_told():
    with pytest.raises(ConfigError, match="no-such-env"):
        make("no-such-env")
    with pytest.raises(ConfigError, match="env_id must name"):
        gym.make("llm_gym/Verifiers-v0")

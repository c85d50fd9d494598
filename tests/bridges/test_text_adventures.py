"""TextWorld, Jericho and ScienceWorld through the bridge, with the real packages."""

import warnings

import gymnasium as gym
import pytest

from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.checker import HOSTILE

pytestmark = pytest.mark.filterwarnings("ignore")


def make(suite, **settings):
    return gym.make(f"llm_gym/{suite}-v0", **settings).unwrapped


class TestTextWorld:
    def test_its_own_solution_wins(self, tw_game):
        env = make("TextWorld", games=tw_game)
        text, _ = env.reset(seed=0)
        assert "$$" not in text
        total, terminated = 0.0, False
        while not terminated:
            assert env.oracle_action() in env.legal_actions()
            _, reward, terminated, _, info = env.step(f"Let me see.\n{env.oracle_action()}")
            total += reward
        assert (total, info["stop_reason"]) == (1.0, StopReason.WON)


class TestJericho:
    def test_a_game_that_jericho_does_not_know_is_played_without_a_warning(self, tw_game):
        pytest.importorskip("jericho")
        env = make("Jericho", games=tw_game)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            env.reset(seed=0)
        text, reward, terminated, _, info = env.step("I look first.\nlook")
        assert "-=" in text
        assert (reward, terminated, info["valid_action"]) == (0.0, False, True)
        with pytest.raises(NotImplementedError):
            env.oracle_action()


class TestScienceWorld:
    @pytest.fixture(scope="class")
    def world(self, java):
        env = make("ScienceWorld", env_id="find-living-thing")
        yield env
        env.close()

    def test_closing_ends_its_process_and_leaves_nothing_open(self, java):
        env = make("ScienceWorld", env_id="find-living-thing")
        process = env.unwrapped._world._gateway.java_process
        env.close()
        assert process.poll() is not None
        assert process.stdin.closed
        assert process.stdout.closed

    def test_an_unknown_command_is_unusable(self, world):
        world.reset(seed=3)
        assert not world.step("florp")[4]["valid_action"]
        assert world.step("look around")[4]["valid_action"]

    def test_the_gold_path_wins(self, world):
        world.reset(seed=1)
        terminated = truncated = False
        while not (terminated or truncated):
            _, _, terminated, truncated, info = world.step(world.oracle_action())
        assert info["stop_reason"] is StopReason.WON
        assert info["foreign"]["score"] == 100

    def test_asking_for_the_gold_path_changes_nothing(self, world):
        def play(ask):
            world.reset(seed=2)
            steps = [world.step(text) for text in ("open door to kitchen", "look around")]
            if ask:
                with pytest.raises(NotImplementedError, match="no gold path from here"):
                    world.oracle_action()
            return [*steps, world.step("go to kitchen"), world.legal_actions()]

        assert play(ask=True) == play(ask=False)

    def test_the_splits_are_its_own(self, world):
        seen = {}
        for split in ("train", "dev", "test"):
            world.reset(seed=0, options={"split": split})
            seen[split] = set(world.variations)
        assert not seen["train"] & seen["test"]
        assert not seen["dev"] & seen["test"]

    def test_no_text_raises(self, world):
        world.max_invalid = len(HOSTILE) + 1
        world.reset(seed=0)
        for text in HOSTILE.values():
            *_, info = world.step(text)
            assert not info["success"]

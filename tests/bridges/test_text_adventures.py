"""TextWorld, Jericho and ScienceWorld through the bridge, with the real packages."""

import shutil
import subprocess
import sys

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError
from llm_gym.evaluate.checker import HOSTILE
from tests.bridges.playing import check_steps

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="session")
def game(tmp_path_factory):
    """A game that TextWorld makes and Inform compiles, which takes a while."""
    pytest.importorskip("textworld")
    path = tmp_path_factory.mktemp("textworld") / "game.z8"
    made = ["custom", "--world-size", "2", "--nb-objects", "3", "--quest-length", "2"]
    tool = shutil.which("tw-make", path=str(shutil.os.path.dirname(sys.executable)))
    if tool is None:
        pytest.skip("tw-make is not installed")
    line = [sys.executable, tool, *made, "--seed", "7", "--output", str(path)]
    subprocess.run(line, check=True, capture_output=True)
    return str(path)


def make(suite, **settings):
    return gym.make(f"llm_gym/{suite}-v0", **settings).unwrapped


class TestTextWorld:
    def test_a_hundred_steps_follow_from_the_seed_whatever_others_do(self, game):
        check_steps(lambda: make("TextWorld", games=game, max_turns=20))

    def test_its_own_solution_wins(self, game):
        env = make("TextWorld", games=game)
        text, _ = env.reset(seed=0)
        assert "$$" not in text
        total, terminated = 0.0, False
        while not terminated:
            assert env.oracle_action() in env.legal_actions()
            _, reward, terminated, _, info = env.step(f"Let me see.\n{env.oracle_action()}")
            total += reward
        assert (total, info["stop_reason"]) == (1.0, StopReason.WON)

    def test_no_text_raises_or_ends_the_process(self, game):
        env = make("TextWorld", games=game, action_format="raw")
        for text in (*HOSTILE.values(), "quit", "restart", "x\x00y"):
            env.reset(seed=0)
            *_, info = env.step(text)
        assert not info["success"]

    def test_games_must_be_there(self, tmp_path):
        pytest.importorskip("textworld")
        with pytest.raises(ConfigError, match="there is no"):
            make("TextWorld", games=str(tmp_path / "none.z8"))
        with pytest.raises(ConfigError, match=r"end in \.z8"):
            make("TextWorld", games=str(tmp_path))


class TestJericho:
    @pytest.fixture(autouse=True)
    def installed(self):
        pytest.importorskip("jericho")

    def test_a_hundred_steps_follow_from_the_seed_whatever_others_do(self, game):
        check_steps(lambda: make("Jericho", games=game, max_turns=20))

    def test_no_text_raises_or_ends_the_process(self, game):
        env = make("Jericho", games=game, action_format="raw")
        for text in (*HOSTILE.values(), "quit", "restart", "x\x00y"):
            env.reset(seed=0)
            env.step(text)
        with pytest.raises(NotImplementedError):
            env.oracle_action()

    def test_a_game_answers(self, game):
        env = make("Jericho", games=game)
        env.reset(seed=0)
        text, reward, terminated, _, info = env.step("I look first.\nlook")
        assert "-=" in text
        assert (reward, terminated, info["valid_action"]) == (0.0, False, True)


class TestScienceWorld:
    @pytest.fixture(scope="class")
    def world(self):
        pytest.importorskip("scienceworld")
        if shutil.which("java") is None:
            pytest.skip("ScienceWorld needs a Java runtime")
        env = make("ScienceWorld", task="find-living-thing")
        yield env
        env.close()

    def test_steps_follow_from_the_seed(self, world):
        commands = ["look around", "inventory", "open door to kitchen", "florp", "go to kitchen"]

        def play():
            return [world.reset(seed=3), *(world.step(command) for command in commands)]

        first = play()
        world.reset(seed=4)
        world.step("look around")
        assert play() == first
        assert not first[4][4]["valid_action"]

    def test_the_gold_path_wins(self, world):
        world.reset(seed=1)
        terminated = truncated = False
        while not (terminated or truncated):
            _, _, terminated, truncated, info = world.step(world.oracle_action())
        assert info["stop_reason"] is StopReason.WON
        assert info["foreign"]["score"] == 100

    def test_the_splits_are_its_own(self, world):
        seen = {}
        for split in ("train", "dev", "test"):
            world.reset(seed=0, options={"split": split})
            seen[split] = set(world.variations)
        assert not seen["train"] & seen["test"]
        assert not seen["dev"] & seen["test"]

    def test_no_text_raises(self, world):
        for text in HOSTILE.values():
            world.reset(seed=0)
            world.step(text)

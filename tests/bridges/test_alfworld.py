"""ALFWorld through the bridge: the real package and its planner, on games of our own."""

import contextlib
import io

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError
from llm_gym.evaluate.checker import HOSTILE

pytest.importorskip("alfworld")
pytest.importorskip("fast_downward")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def make(alfworld_games):
    def make(**settings):
        settings.setdefault("games", str(alfworld_games))
        return gym.make("llm_gym/ALFWorld-v0", **settings).unwrapped

    return make


def win(env):
    """Follow the planner to the end, and return what the last step gave."""
    for _ in range(30):
        assert env.oracle_action() in env.legal_actions()
        step = env.step(f"Let me see.\n{env.oracle_action()}")
        if step[2]:
            return step
    pytest.fail("the planner does not get there")


def test_its_planner_wins_every_kind_of_task(make):
    games = make().games
    assert len(games) == 5
    for game in games:
        env = make(games=game.rpartition("/")[0])
        text, _ = env.reset(seed=0)
        assert env.game == game
        assert "Your task is to: put some" in text
        assert "_bar_" not in text
        _, reward, terminated, truncated, info = win(env)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info["stop_reason"] is StopReason.WON


def test_it_plays_what_alfworld_itself_plays(make, alfworld_games):
    from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv

    config = {
        "env": {"goal_desc_human_anns_prob": 0, "task_types": [1, 2, 3, 4, 5, 6],
                "domain_randomization": False, "expert_type": "handcoded"},
        "dataset": {"data_path": str(alfworld_games / "train"), "num_train_games": 1},
        "general": {"training_method": "dqn"},
        "rl": {"training": {"max_nb_steps_per_episode": 50}},
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = AlfredTWEnv(config, "train").init_env(batch_size=1)
        (shown,), infos = theirs.reset()
    env = make(games=infos["extra.gamefile"][0].rpartition("/")[0])
    text, _ = env.reset(seed=0)
    assert text.split() == f"{shown} {env.format.tell('look', 'command')}".split()
    assert env.legal_actions() == infos["admissible_commands"][0]
    for command in ("go to fridge 1", "open fridge 1", "dance", "inventory"):
        (shown,), (score,), (done,), infos = theirs.step([command])
        text, reward, terminated, _, info = env.step(command)
        assert text.split() == shown.split()
        assert (reward, terminated) == (score, done) == (0.0, False)
        assert env.legal_actions() == infos["admissible_commands"][0]
        assert info["valid_action"] == (command != "dance")
    theirs.close()


def test_the_splits_are_alfworlds_own(make):
    env = make()
    sizes = {}
    for split, folder in (("train", "train"), ("dev", "valid_seen"), ("test", "valid_unseen")):
        env.reset(seed=1, options={"split": split})
        assert all(f"/{folder}/" in game for game in (env.game, *env.games))
        sizes[split] = len(env.games)
    assert sizes == {"train": 3, "dev": 1, "test": 1}
    env.reset(seed=1)
    assert len(env.games) == 5
    part = make(games=env.game.rpartition("/")[0])
    with pytest.raises(ConfigError, match="no splits"):
        part.reset(options={"split": "train"})


def test_only_turns_are_limited_as_in_alfworld(make):
    env = make()
    env.reset(seed=0)
    for turn in range(50):
        text, _, _, truncated, info = env.step("dance")
        assert text == "Nothing happens."
        assert truncated == (turn == 49)
    assert info["stop_reason"] is StopReason.MAX_STEPS


def test_kinds_of_tasks_are_chosen_and_wrong_ones_are_told(make, tmp_path):
    env = make(tasks=["pick_cool_then_place_in_recep"])
    assert len(env.games) == 1
    assert "Tomato" in env.games[0]
    with pytest.raises(ConfigError, match="such as pick_and_place_simple"):
        make(tasks=["pick_and_place"])
    with pytest.raises(ConfigError, match="no games of ALFWorld for look_at_obj_in_light"):
        make(tasks=["look_at_obj_in_light"])
    with pytest.raises(ConfigError, match="alfworld-download fetches them"):
        make(games=str(tmp_path))


def test_no_text_raises(make):
    env = make(action_format="raw", max_turns=1000)
    env.reset(seed=0)
    for text in (*HOSTILE.values(), "quit", "restart", "x\x00y"):
        _, _, terminated, _, info = env.step(text)
        assert not terminated
        assert not info["valid_action"]

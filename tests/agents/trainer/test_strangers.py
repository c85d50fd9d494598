"""Environments as other people write them: they cost their own episodes, and never the run."""

import math
import re

import numpy as np
import pytest
from rich.console import Console

from llm_gym import cli
from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText
from llm_gym.episodes import Trajectory
from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.commands.report import RunReport, transcript
from tests.agents.small_run import Odd, small, trained

BATCH = {"training": {"batch_size": 16, "mini_batch_size": 16}}


def train(folder, env, **given):
    [row] = trained(small(folder, **BATCH), env, **given).metrics_history
    return row


def now_and_then(*answers):
    """An environment that gives one of ``answers`` in about half of its steps."""

    def step(self, action):
        usual = Odd.step(self, action)
        at = self.np_random.integers(2 * len(answers))
        return (*answers[at], *usual[2:]) if at < len(answers) else usual

    return type("NowAndThen", (Odd,), {"step": step})


def test_unusable_rewards_and_observations_cost_only_their_episode(tmp_path):
    bad = [("!", math.nan), ("!", -math.inf), ("!", 1e300), (None, 1.0), (b"!", 1.0), (3, 1.0)]
    row = train(tmp_path, now_and_then(*bad))
    assert 0 < row["episode/failed"] < 1
    assert row["reward/mean"] == 1.0, "of the others"
    assert math.isfinite(row["loss/policy"])


def test_a_first_observation_that_is_no_text_costs_its_episode_only(tmp_path):
    def reset(self, *, seed=None, options=None):
        _, info = Odd.reset(self, seed=seed)
        return ("?", info) if self.np_random.random() < 0.5 else (None, info)

    row = train(tmp_path, type("Speechless", (Odd,), {"reset": reset}))
    assert row["episode/unplayed"] > 0
    assert row["reward/mean"] == 1.0


INFO = {
    "success": np.array([True, False]),
    "valid_action": np.array([True, False]),
    "reward_terms": {"goal reached, at last": 0.5, "mean": 7.0, "why": "near", "all": np.ones(2)},
    "stop_reason": 5,
    "move": np.ones(3),
}


def test_reserved_names_in_an_info_are_harmless(tmp_path):
    def step(self, action):
        return (*Odd.step(self, action)[:4], dict(INFO))

    row = train(tmp_path, type("Telling", (Odd,), {"step": step}))
    assert row["reward/goal_reached_at_last"] == 0.5
    assert row["reward/mean"] == 1.0, "a term of that name is not what an episode earned"
    assert row["reward/mean_"] == 7.0


def test_terms_of_a_reward_function_have_any_name(tmp_path):
    row = train(tmp_path, Odd, reward_fn=lambda episode: {"mean": 1.0, "Goal reached": 2.0})
    assert (row["reward/mean"], row["reward/mean_"], row["reward/Goal_reached"]) == (3.0, 1.0, 2.0)


def test_prompts_that_never_fit_are_an_error_with_their_length(tmp_path):
    class LongPrompt(Odd):
        observation_space = AnyText(10**6)

        def reset(self, *, seed=None, options=None):
            return "word " * 20_000, {}

    with pytest.raises(ConfigError, match="100,000 characters"):
        train(tmp_path, LongPrompt)


THEIRS = """
from tests.agents.small_run import BreaksOnce, Odd
class Clings(BreaksOnce):
    def close(self):
        raise RuntimeError("I stay")

class Wants(Odd):
    def __init__(self, size): ...
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    (tmp_path / "clinging.py").write_text(THEIRS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("unpainted")
def test_an_environment_that_raises_when_it_is_closed_trains(theirs, caplog, capsys):
    assert cli.main(["train", "clinging:Clings", "--smoke"]) == 0
    assert "I stay" in caplog.text
    out = capsys.readouterr().out
    assert re.search(r"^note: [1-4] of 4 episodes", out, re.MULTILINE)


def test_repeated_advice_is_printed_once_at_the_end(train, tmp_path, capsys):
    trainer = train(small(tmp_path), Odd)
    report = RunReport(trainer, Console())
    for share in (97, 100, 98):
        report.advise(f"{share}% of the replies were cut: raise it")
    capsys.readouterr()
    report.on_sigterm(Evaluation("odd", [], 0, 0.0))
    assert capsys.readouterr().out.count("advice: ") == 1


def test_a_transcript_shows_the_ends_of_a_long_episode():
    states = [f"page {at} " + "word " * 20_000 for at in range(101)]
    shown = transcript(Trajectory(states=states, actions=["on"] * 100))
    assert len(shown) < 20_000
    assert "page 9 " in shown
    assert "(80 more turns)" in shown
    assert "page 50 " not in shown
    assert "page 100 " in shown


def test_a_missing_environment_argument_is_named_plainly(theirs, capsys):
    assert cli.main(["train", "clinging:Wants", "--smoke"]) == 2
    printed = capsys.readouterr().err
    assert "clinging:Wants" in printed
    assert "'size'" in printed
    assert "environment creator" not in printed

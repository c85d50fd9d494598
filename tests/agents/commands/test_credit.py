"""The judge of estimators, in a game whose true advantages are known by hand.

At the fork "a" leads to a place where everything wins, "b" to one where only "a" wins. A player
that picks either with probability 1/2 has V = 3/4 at the fork, 1 and 1/2 behind it. So the first
turn's advantage is +1/4 or -1/4, the second's 0 after "a", and +1/2 or -1/2 after "b".
"""

import json
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest
import torch

from llm_gym.cli.evaluate import eval_parser
from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText
from llm_gym.episodes import Trajectory
from llm_gym.view.sources import ViewSource
from llm_gym_agents.commands import credit as module
from llm_gym_agents.commands import evaluate
from llm_gym_agents.commands.credit import credit, credit_table
from llm_gym_agents.config import TrainingConfig
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.learn.scoring import Scores
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.scripted import ScriptedEngine
from tests.agents.tiny import tiny_tokenizer

TRAINING = TrainingConfig(group_size=16)
VALUES = {"fork": 0.75, "safe": 1.0, "hard": 0.5}


class Fork(gym.Env[str, str]):
    observation_space = action_space = AnyText(1000)

    def reset(self, *, seed=None, options=None):
        self.place = "fork"
        return self.place, {}

    def step(self, action):
        if self.place == "fork":
            self.place = "safe" if action.startswith("a") else "hard"
            return self.place, 0.0, False, False, {}
        won = self.place == "safe" or action.startswith("a")
        return "over", float(won), True, False, {"success": won}

    def state_key(self):
        return self.place

    def potential(self):
        return VALUES[self.place]


def coin(request):
    return list(b"a\n" if request.seed % 2 else b"b\n")


def policy(**sampling):
    chat = ChatFormat.from_tokenizer(tiny_tokenizer(chat=False), plain=True)
    return LLMPolicy(ScriptedEngine(say=coin), chat, sampling=Sampling(**sampling), run_seed=0)


@pytest.fixture(scope="module", autouse=True)
def wide_intervals():
    """Draw intervals from few samples; ``algo/test_credit.py`` has as many as a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llm_gym_agents.algo.credit.DRAWS", 20)
        yield


def judged(**how):
    return credit(Fork, policy(), TRAINING, **{"episodes": 48, "branches": 32, **how})[0]


@pytest.fixture(scope="module")
def report():
    return judged()


@pytest.fixture(scope="module")
def many():
    """A report of many branches, its episodes, and the truth that estimates were compared with."""
    compare, truths = module.compare, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "compare", lambda *args: truths.append(args[1]) or compare(*args))
        found = credit(Fork, policy(), TRAINING, episodes=32, branches=256, turns=24)
    return *found, truths[-1]


def test_true_advantages_match_the_game(many):
    report, _, truth = many
    known = np.array([-0.5, -0.25, 0.0, 0.25, 0.5])
    nearest = known[np.abs(truth.mean_N[:, None] - known).argmin(1)]
    assert np.abs(truth.mean_N - nearest).max() < 0.12, "four standard errors"
    assert set(nearest) == set(known)
    # A mean of 256 coins has a variance of at most 1/4 / 256, a difference of two twice that.
    assert truth.variance_N.max() <= 2 * 0.25 / 255 + 1e-9
    assert report.ceiling > 0.98
    assert report.spread == pytest.approx(nearest.std(), abs=0.03)


def test_estimators_are_ranked_by_correlation_with_the_truth(report):
    found = {name: row["correlation"][0] for name, row in report.estimators.items()}
    assert not any(name.startswith("gae") for name in found), "there is no critic"
    # The table knows all three states; an episode's score ranks turns only on average.
    assert found["state_td, shrinkage=0"] > 0.8
    assert found["state_td, prior alone"] > 0.8
    assert 0.2 < found["grpo"] < 0.8 < found["state_td"]
    assert found["vine, branches=1"] < found["state_td, branches=1"]
    assert report.ceiling > max(found.values()) - 0.05
    for row in report.estimators.values():
        value, low, high = row["correlation"]
        assert low <= value <= high
    assert report.success == pytest.approx(0.75, abs=0.15)
    assert report.turns == 64


def test_recorded_tokens_hold_true_and_estimated_advantages(many):
    report, episodes, _ = many
    assert report.turns == 2 * len(episodes) == 24
    assert {episode.group for episode in episodes} == {0, 1}, "every start has its part"
    for episode in episodes:
        first, second = (action.strip() for action in episode.actions)
        truth = [0.25 if first == "a" else -0.25]
        truth += [0.0 if first == "a" else 0.5 if second == "a" else -0.5]
        tokens = episode.tokens
        known = [
            (turn, value)
            for turn, value in zip(tokens.turns, tokens.true_advantages, strict=True)
            if not np.isnan(value)
        ]
        assert [turn for turn, _ in known] == [0, 0, 1, 1]
        assert [value for _, value in known] == pytest.approx(np.repeat(truth, 2), abs=0.12)
        # grpo, since there is no critic: one number for the whole episode
        assert len({value for value in tokens.advantages if not np.isnan(value)}) == 1
        assert tokens.values is tokens.trained_on is None


def test_tokens_are_counted_and_the_report_is_a_table_and_json(report):
    whole = report.estimators["grpo"]["tokens"]
    assert whole == report.episodes * 2 * 2  # two turns of two tokens
    # One branch from each of both states: four tokens, and two.
    assert report.estimators["vine, branches=1"]["tokens"] == whole + report.episodes * 6
    lines = credit_table(report).splitlines()
    assert len(lines) == 3 + len(report.estimators)
    assert f"{report.episodes} episodes from {report.starts} starts" in lines[0]
    assert report.starts == 3  # of 16 episodes each
    assert json.loads(json.dumps(asdict(report)))["turns"] == report.turns


def test_a_report_depends_only_on_the_seed():
    few = {"episodes": 16, "branches": 2, "turns": 4}
    one, same, other = judged(**few), judged(**few), judged(**few, seed=5)
    one.seconds = same.seconds
    assert one == same != other


def test_a_correct_critic_explains_the_truth_and_a_wrong_one_does_not():
    def critic(right):
        def score(data):
            # Two turns of two tokens; the first reply decides where the second one is.
            first_a = data.token_T.view(-1, 4)[:, 0] == ord("a")
            second = torch.where(first_a, 1.0, 0.5) if right else torch.where(first_a, 0.5, 1.0)
            value_T = torch.stack([torch.full_like(second, 0.75)] * 2 + [second] * 2, 1).view(-1)
            return Scores(None, value_T, torch.zeros(len(data.lengths_E)), None)

        return score

    good = judged(critic=critic(True), episodes=32)
    bad = judged(critic=critic(False), episodes=16, branches=16)
    assert good.critic[0] > 0.9 * good.critic_ceiling > 0.7
    assert bad.critic[0] < 0
    assert good.estimators["gae_turn"]["correlation"][0] > 0.7
    assert "the critic explains" in credit_table(good)


def test_the_report_is_saved_and_the_viewer_lists_its_episodes(tmp_path, monkeypatch):
    found = credit(Fork, policy(), TRAINING, episodes=16, branches=2, turns=8)
    monkeypatch.setattr(module, "credit", lambda *args, **how: found)
    monkeypatch.setattr(evaluate, "load_tokenizer", lambda path: tiny_tokenizer(chat=False))
    line = ["Fork", "--model", str(tmp_path), "--credit", "2", "--json"]
    options = eval_parser().parse_args(line)
    evaluate._judge_credit(
        {"Fork": None}, None, TrainingConfig(), {}, None, str(tmp_path / "final"), options
    )
    assert json.loads((tmp_path / "credit.json").read_text()) == [asdict(found[0])]
    (file,) = ViewSource(tmp_path).files
    assert (file.label, len(file.rows)) == ("credit", len(found[1]))
    tokens = Trajectory.from_json(file.raw(1).decode()).tokens
    assert "".join(tokens.texts).count("\n") >= 2, "replies can be read"
    assert sum(not np.isnan(value) for value in tokens.true_advantages) == 4


def test_greedy_sampling_and_a_single_branch_are_refused():
    with pytest.raises(ConfigError, match="temperature"):
        credit(Fork, policy(temperature=0.0), TRAINING)
    with pytest.raises(ConfigError, match="branches"):
        judged(branches=1)

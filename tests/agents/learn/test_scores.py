"""What is told of a batch around its update, in numbers that can be counted by hand."""

import math

import pytest
import torch

from llm_gym_agents.algo import Advantages
from llm_gym_agents.learn.scoring import Scores, critic_metrics, trained_tokens
from tests.agents.learn.test_ppo import data


def test_a_ratio_says_how_much_likelier_a_token_is_to_the_trainer_than_to_who_sampled_it():
    batch = data()
    twice = batch.sampler_log_prob_T + math.log(2.0)
    zeros = torch.zeros_like(twice)
    found = trained_tokens(batch, Scores(twice, None, None, None), Advantages(zeros, zeros))
    assert found.keys() == {"ratios", "advantages"}
    torch.testing.assert_close(found["ratios"], torch.full_like(twice, 2.0))


def test_a_critic_explains_what_its_errors_do_not_vary_by():
    scores = Scores(None, torch.tensor([1.0, 2.0, 3.0, 4.0]), None, None)
    returns = torch.tensor([1.0, 2.0, 3.0, 8.0])
    assert critic_metrics(scores, Advantages(returns, returns)) == {
        "value/explained_variance": pytest.approx(17 / 29),  # 1 - 4 / (29 / 3)
        "value/mean": 2.5,
        "value/target_mean": 3.5,
    }
    same = torch.ones(4)
    assert critic_metrics(scores, Advantages(same, same))["value/explained_variance"] == 0.0
    assert critic_metrics(Scores(None, None, None, None), Advantages(same, same)) == {}

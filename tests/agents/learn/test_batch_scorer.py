"""A process that was dealt nothing reads for company: it is counted nowhere."""

import pytest
import torch

from llm_gym_agents.batch.pack import Packer
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.model.policy_value import PolicyValueModel
from tests.agents.learn.test_ppo import data, gradients, training
from tests.agents.tiny import tiny_model


class Idle(SingleProcess):
    """One of several processes: others have all the episodes, and read two packs of them."""

    def assign(self, costs):
        return []

    def all_max(self, number):
        return 2


@pytest.fixture
def ppo():
    model = PolicyValueModel(tiny_model())
    torch.nn.init.normal_(model.value_head.weight, std=0.1)
    return PPO(model, training(), ranks=Idle())


def test_it_has_no_part_in_the_scores(ppo):
    read = []
    ppo.model.register_forward_hook(lambda *_: read.append(1))
    found = ppo.scorer.score(Packer(data()), entropy=True)
    assert len(read) == 2
    for name in ("log_prob_T", "value_T", "bootstrap_E", "entropy_T"):
        assert not getattr(found, name).any(), name


def test_it_has_no_part_in_the_gradient(ppo):
    found = gradients(ppo, data())
    assert found
    assert not any(gradient.any() for gradient in found.values())

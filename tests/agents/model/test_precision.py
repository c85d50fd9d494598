"""Weights are trained in float32, whatever is computed in: no step is lost to rounding."""

import copy

import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.trainer.build import prepare_lm
from tests.agents.learn.test_ppo import data, gradients, training
from tests.agents.model.test_policy_value import batch
from tests.agents.tiny import tiny_model

pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16


def learner(lm=None, **model):
    config = ConfigStore()
    config.training = training(learning_rate=1e-6)
    for name, value in model.items():
        setattr(config.model, name, value)
    return Learner(prepare_lm(config.model, lm or tiny_model()), config.training, config.model)


def moved(made, updates=20):
    """Which entries of each matrix have left their place within so many updates.

    Within, not after: a weight that wanders may end where it began, and has lost nothing.
    """
    matrices = {name: weight for name, weight in made.lm.named_parameters() if weight.ndim == 2}
    before = {name: weight.clone() for name, weight in matrices.items()}
    left = {name: torch.zeros_like(weight, dtype=torch.bool) for name, weight in before.items()}
    for _ in range(updates):
        made.ppo.update(data())
        for name, weight in matrices.items():
            left[name] |= weight != before[name]
    return left


def test_updates_at_a_tiny_rate_move_in_bfloat16_what_they_move_in_float32():
    wide = moved(learner())
    narrow = moved(learner(dtype="bfloat16"))
    for name, entries in wide.items():
        if "embed" not in name:  # rows of tokens that were not read stay in both
            assert entries.all(), name
        assert not (entries & ~narrow[name]).any(), name


def test_weights_that_came_in_bfloat16_are_trained_in_float32():
    made = learner(tiny_model().to(torch.bfloat16), dtype="bfloat16")
    assert {weight.dtype for weight in made.model.parameters()} == {torch.float32}
    made.ppo.update(data())
    state = made.ppo.optimizer.state
    assert {each["exp_avg_sq"].dtype for each in state.values()} == {torch.float32}


def test_adapters_on_a_bfloat16_base_are_float32_and_the_base_stays_as_it_is():
    pytest.importorskip("peft")
    made = learner(tiny_model().to(torch.bfloat16), dtype="bfloat16", lora_rank=2)
    kinds = {name: weight.dtype for name, weight in made.lm.named_parameters()}
    assert {kind for name, kind in kinds.items() if "lora_" in name} == {torch.float32}
    assert {kind for name, kind in kinds.items() if "lora_" not in name} == {torch.bfloat16}
    made.ppo.update(data())


def test_a_cpu_computes_in_float32():
    made = learner()
    assert made.model.compute_dtype == torch.float32
    plain = PolicyValueModel(copy.deepcopy(made.lm))
    assert made.model(*batch()).log_prob_T.equal(plain(*batch()).log_prob_T)


def test_bfloat16_arithmetic_gives_nearly_the_gradient_of_float32():
    lm = tiny_model()
    wide = gradients(PPO(PolicyValueModel(copy.deepcopy(lm)), training()), data())
    model = PolicyValueModel(lm, compute_dtype=torch.bfloat16)
    for name, gradient in gradients(PPO(model, training()), data()).items():
        assert gradient.dtype == torch.float32
        close = torch.nn.functional.cosine_similarity(
            gradient.flatten(), wide[name].flatten(), dim=0
        )
        assert close > 0.97, name


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_dropout_is_off_in_scores_and_in_updates(family, checkpointing):
    rates = {"gpt2": {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5}}
    lm = tiny_model(family, **rates.get(family, {"dropout": 0.5, "attention_dropout": 0.5}))
    made = learner(lm.train(), gradient_checkpointing=checkpointing)
    first, again = made.model(*batch()).log_prob_T, made.model(*batch()).log_prob_T
    assert first.equal(again)
    made.lm.train()  # as callers may do
    assert made.model(*batch()).log_prob_T.equal(first)
    metrics = made.ppo.update(data(), rate=0.0)
    assert metrics["policy/kl"] < 1e-6


def test_checkpointed_layers_are_computed_again_and_give_the_same_gradient():
    lm = tiny_model()
    plain = gradients(learner(copy.deepcopy(lm)).ppo, data())
    made = learner(copy.deepcopy(lm), gradient_checkpointing=True)
    calls = []
    made.lm.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    found = gradients(made.ppo, data())
    assert len(calls) == 4, "one to score, there, back, and one to measure the KL"
    for name, gradient in plain.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-5, msg=name)

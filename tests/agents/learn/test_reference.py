"""The policy that a KL penalty pulls towards: a copy, or with LoRA the base without adapters."""

import copy

import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.build import prepare_lm
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.model.weights import served_weights
from tests.agents.learn.test_ppo import data, training
from tests.agents.model.test_policy_value import batch
from tests.agents.tiny import tiny_model

pytest.importorskip("peft")


def learner(**model):
    config = ConfigStore()
    config.training = training(kl="loss", kl_coef=0.1, learning_rate=1e-2)
    for name, value in model.items():
        setattr(config.model, name, value)
    lm = tiny_model()
    return copy.deepcopy(lm), Learner.from_config(config, prepare_lm(config, lm))


def test_with_adapters_the_reference_is_the_base_and_nothing_is_kept_of_it():
    base, made = learner(lora_rank=2)
    assert made.reference is None
    assert "reference" not in made.state()
    first = made.ppo.update(data())
    assert first["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    made.ppo.update(data())
    told = made.ppo.reference(*batch(), entropy="none").log_prob_T
    with torch.no_grad():
        ids, lengths, positions, tokens = batch()
        logits = torch.cat([base(input_ids=s[None]).logits[0] for s in ids.split(lengths.tolist())])
    wanted = logits.log_softmax(-1)[positions].gather(-1, tokens[:, None]).squeeze(-1)
    torch.testing.assert_close(told, wanted, atol=1e-5, rtol=1e-5)
    own = made.model(*batch()).log_prob_T
    assert (own - told).abs().max() > 1e-3, "adapters are on again"
    trained = [weight for name, weight in made.lm.named_parameters() if "lora_" in name]
    assert all(weight.requires_grad for weight in trained)


def test_without_adapters_it_is_a_copy_that_is_saved():
    _, made = learner()
    assert "reference" in made.state()
    assert not any(weight.requires_grad for weight in made.reference.parameters())


def test_adapted_weights_are_published_one_after_the_other():
    _, made = learner(lora_rank=2)
    held, most = [], 0
    for name, tensor in served_weights(made.lm):
        held = [each for each in held if each() is not None]
        import weakref

        own = dict(made.lm.named_parameters())
        if not any(tensor.data_ptr() == weight.data_ptr() for weight in own.values()):
            held.append(weakref.ref(tensor))
        most = max(most, len(held))
        del tensor, name
    assert most <= 2, "a second model must never exist"

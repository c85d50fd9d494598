"""On a GPU: variable-length kernels, sampling and updates give what the CPU gives."""

import copy
import pickle

import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.optimizer import trained
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from tests.agents.learn.test_ppo import data, gradients, training
from tests.agents.model.test_policy_value import batch, one_by_one
from tests.agents.tiny import WIDE, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def exact_float32():
    """TF32 would hide a real difference behind a rounding one."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def on_gpu(family="llama", dtype=torch.float32, **settings):
    return tiny_model(family, **WIDE | settings).to("cuda", dtype)


@pytest.mark.parametrize("family", ["llama", "qwen2", "mistral"])
def test_the_variable_length_kernel_gives_the_log_probs_of_single_sequences(family):
    lm = on_gpu(family, torch.bfloat16)
    inputs = [tensor.cuda() for tensor in batch()]
    with torch.no_grad():
        found = PolicyValueModel(lm)(*inputs).log_prob_T
        exact = PolicyValueModel(copy.deepcopy(lm).float())(*inputs).log_prob_T
        alone, _ = one_by_one(lm, *inputs[:2])
    rounding = (alone - exact).abs().max()
    assert (found - exact).abs().max() <= 2 * rounding + 1e-2


def test_the_variable_length_kernel_has_gradients():
    lm = on_gpu(dtype=torch.bfloat16)
    inputs = [tensor.cuda() for tensor in batch()]
    exact = copy.deepcopy(lm).float()
    PolicyValueModel(exact)(*inputs).log_prob_T.mean().backward()
    PolicyValueModel(lm)(*inputs).log_prob_T.mean().backward()
    for (name, ours), theirs in zip(lm.named_parameters(), exact.parameters(), strict=True):
        close = torch.nn.functional.cosine_similarity(
            ours.grad.float().flatten(), theirs.grad.flatten(), dim=0
        )
        assert close > 0.98, name


def test_float32_on_the_gpu_equals_the_cpu():
    lm = on_gpu()
    inputs = batch()
    gpu = PolicyValueModel(lm)(*(tensor.cuda() for tensor in inputs)).log_prob_T
    cpu = PolicyValueModel(copy.deepcopy(lm).cpu())(*inputs).log_prob_T
    torch.testing.assert_close(gpu.cpu(), cpu, atol=1e-4, rtol=1e-4)


def test_log_probs_of_engine_and_trainer_agree_on_a_gpu():
    lm = on_gpu()
    policy = LLMPolicy(
        TransformersEngine(lm), ChatFormat.from_tokenizer(tiny_tokenizer()),
        sampling=Sampling(max_tokens=12),
    )  # fmt: skip
    pool = TextEnvPool("llm_gym/GuessTheNumber-v0", 8, rules="system")
    rollout = EpisodeCollector(pool, policy).collect([EpisodeTask(at, at) for at in range(16)])
    found = assemble(rollout).to("cuda")
    with torch.no_grad():
        scores = PolicyValueModel(lm)(
            found.ids_S, found.sequence_lengths_Q, found.position_T, found.token_T
        )
    torch.testing.assert_close(scores.log_prob_T, found.sampler_log_prob_T, atol=1e-4, rtol=0)


def test_an_update_on_the_gpu_has_the_gradient_of_one_on_the_cpu():
    model = PolicyValueModel(on_gpu())
    other = copy.deepcopy(model).cpu()
    gpu = gradients(PPO(model, training()), data())
    cpu = gradients(PPO(other, training()), data())
    for name, gradient in cpu.items():
        torch.testing.assert_close(gpu[name].cpu(), gradient, atol=1e-4, rtol=1e-3, msg=name)


def test_a_bfloat16_model_trains_and_its_loss_is_finite():
    model = PolicyValueModel(on_gpu(dtype=torch.bfloat16))
    metrics = PPO(model, training(ppo_epochs=2)).update(data())
    assert metrics["train/grad_norm"] > 0


def learner_with(optimizer, lm):
    config = ConfigStore()
    config.training = training(optimizer=optimizer, learning_rate=1e-3)
    config.model.dtype = "float32"
    return Learner(lm, config.training, config.model)


def moved_by(optimizer, lm, updates=5):
    """Return how far each matrix went, and the bytes of state that lie on the GPU for it."""
    made = learner_with(optimizer, copy.deepcopy(lm))
    for _ in range(updates):
        made.ppo.update(data())
    state = made.ppo.optimizer.state
    held = sum(
        each.numel() * each.element_size()
        for parameter in trained(made.lm)
        for each in state[parameter].values()
        if torch.is_tensor(each) and each.is_cuda and not getattr(each, "is_paged", False)
    )
    before = dict(lm.named_parameters())
    ways = {name: (w - before[name]).flatten() for name, w in made.lm.named_parameters()}
    return {name: way for name, way in ways.items() if before[name].ndim == 2}, held


PAGED = {"hidden_size": 512, "intermediate_size": 512, "num_key_value_heads": 4}
"""Wide enough to be paged: the state of a weight of fewer than 100,000 numbers stays on the GPU."""


@pytest.mark.parametrize(("optimizer", "wide", "close", "share"), [
    ("adamw_8bit", {}, 0.9, 0.45), ("adamw_paged", PAGED, 0.99, 0.01),
])  # fmt: skip
def test_small_optimizers_follow_adamw_with_less_gpu_memory(optimizer, wide, close, share):
    pytest.importorskip("bitsandbytes")
    lm = on_gpu(**wide)
    truth, usual = moved_by("adamw", lm)
    found, held = moved_by(optimizer, lm)
    assert held < share * usual
    for name, way in truth.items():
        if way.norm() > 0:
            angle = torch.nn.functional.cosine_similarity(found[name], way, dim=0)
            assert angle > close, name


@pytest.mark.parametrize("optimizer", ["adamw_8bit", "adamw_paged"])
def test_small_optimizers_resume_from_their_state(optimizer):
    pytest.importorskip("bitsandbytes")
    one = learner_with(optimizer, on_gpu())
    one.ppo.update(data(0))
    state = pickle.loads(pickle.dumps(one.state()))
    other = learner_with(optimizer, copy.deepcopy(one.lm))
    other.load_state(state)
    for each in (one, other):
        torch.manual_seed(7)
        each.update(data(1))
    for (name, ours), theirs in zip(one.lm.named_parameters(), other.lm.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=name)

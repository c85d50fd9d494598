"""Lean layers: the numbers of the model's own, less kept for the way back, nothing left behind."""

import copy
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from llm_gym_agents.config import ModelConfig
from llm_gym_agents.model import lean_layers as module
from llm_gym_agents.model.lean_layers import GatedProduct, lean_layers
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.trainer.build import prepare_lm
from tests.agents.model.test_policy_value import batch
from tests.agents.tiny import WIDE, tiny_model

pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16
# Gemma's, Cohere's norms and Phi-3's MLP compute something else; GPT-2, NeoX and OPT have neither.
LEAN = {
    "llama": (5, 2), "qwen2": (5, 2), "qwen3": (9, 2), "mistral": (5, 2), "gemma2": (0, 2),
    "gemma3_text": (0, 2), "granite": (5, 2), "phi3": (5, 0), "cohere": (0, 2), "gpt2": (0, 0),
    "gpt_neox": (0, 0), "opt": (0, 0),
}  # fmt: skip
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def found(trunk):
    """Return how many norms and MLPs are made leaner."""
    with torch.autocast("cpu", torch.bfloat16), lean_layers(trunk):
        names = [each.forward.func for each in trunk.modules() if "forward" in each.__dict__]
    return names.count(module._norm), names.count(module._gated)


def kept(model, device="cpu"):
    """Return log-probs, and shape and type of whatever a pass keeps besides weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    seen = {}

    def note(tensor):
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            seen[place] = tensor  # held, so that its memory is not reused
        return tensor

    inputs = [tensor.to(device) for tensor in batch()]
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        log_prob_T = model(*inputs).log_prob_T
    return log_prob_T, [(tuple(each.shape), each.dtype) for each in seen.values()]


def narrow(lm):
    return PolicyValueModel(lm, compute_dtype=torch.bfloat16)


@pytest.mark.parametrize("family", LEAN)
def test_norms_and_mlps_are_found_in_every_family(family):
    assert found(tiny_model(family).base_model) == LEAN[family]


def test_norms_and_mlps_are_found_without_gradients():
    with torch.no_grad():
        assert found(tiny_model().base_model) == LEAN["llama"]


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, NotImplementedError])
def test_a_torch_without_the_fused_norm_leaves_norms_alone(monkeypatch, caplog, error):
    fails = Mock(side_effect=error("no kernel"))
    monkeypatch.setattr(torch.ops.aten, "_fused_rms_norm", fails)
    assert found(tiny_model().base_model) == (0, 2)
    assert "no kernel" in caplog.text


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text", "cohere"])
def test_numbers_and_gradients_are_those_of_the_modules_themselves(family, monkeypatch):
    lm = tiny_model(family)
    for weight in lm.parameters():  # norms whose weights are all alike would hide a mistake
        if weight.ndim == 1:
            nn.init.normal_(weight, 1.0, 0.3, generator=torch.Generator().manual_seed(1))
    lm.to(torch.bfloat16).float()  # as an engine has them: what differs then is arithmetic
    exact = PolicyValueModel(copy.deepcopy(lm))(*batch()).log_prob_T
    lean_lm, plain_lm = copy.deepcopy(lm), lm
    ours = narrow(lean_lm)(*batch()).log_prob_T
    ours.sum().backward()
    monkeypatch.setattr(module, "_lean", lambda each: None)
    theirs = narrow(plain_lm)(*batch()).log_prob_T
    theirs.sum().backward()
    assert (ours - exact).abs().mean() <= 1.5 * (theirs - exact).abs().mean()
    for (name, one), two in zip(lean_lm.named_parameters(), plain_lm.parameters(), strict=True):
        assert one.grad.dtype == torch.float32
        close = nn.functional.cosine_similarity(one.grad.flatten(), two.grad.flatten(), dim=0)
        assert close > 0.98, name


def test_a_gated_product_has_the_gradient_of_its_formula():
    torch.manual_seed(0)
    gate, up = torch.randn(2, 5, 7, dtype=torch.float64, requires_grad=True).unbind()
    for act in (nn.functional.silu, nn.GELU(approximate="tanh")):
        assert GatedProduct.apply(act, gate, up).equal(act(gate) * up)
        assert torch.autograd.gradcheck(
            lambda one, two, act=act: GatedProduct.apply(act, one, two), (gate, up)
        )


def test_lean_layers_keep_fewer_results_of_mlps_and_norms(monkeypatch):
    lm = tiny_model(num_attention_heads=2, num_key_value_heads=1)  # no other 32 wide and 2-d
    _, lean = kept(narrow(copy.deepcopy(lm)))
    monkeypatch.setattr(module, "_lean", lambda each: None)
    _, plain = kept(narrow(lm))
    tokens = len(batch()[0])

    def count(shapes, width, dtype):
        rows = [shape for shape, kind in shapes if kind == dtype and len(shape) > 1]
        return sum(shape[-2:] == (tokens, width) for shape in rows)

    assert count(plain, 48, torch.bfloat16) == 2 * 4
    assert count(lean, 48, torch.bfloat16) == 2 * 3
    copies = count(plain, 32, torch.bfloat16) - count(lean, 32, torch.bfloat16)
    assert copies >= 2 * 3, "of five casts of two norms, three in every layer"


@pytest.mark.gpu
def test_on_a_gpu_no_hidden_state_is_kept_in_float32():
    model = narrow(tiny_model(**WIDE).cuda())
    _, shapes = kept(model, "cuda")
    tokens = len(batch()[0])
    assert [each for each in shapes if each == ((1, tokens, 128), torch.float32)] == []
    hidden = [each for each in shapes if each[0][-1:] == (128,) and tokens in each[0]]
    # In each of two layers: both norms' inputs and results; around them, what the head reads.
    assert len(hidden) <= 2 * 4 + 3, hidden


@pytest.mark.parametrize("device", DEVICES)
def test_a_checkpointed_layer_has_the_same_gradient(device):
    lm = tiny_model(**WIDE).to(device)
    again = narrow(prepare_lm(ModelConfig(gradient_checkpointing=True), copy.deepcopy(lm)))
    inputs = [tensor.to(device) for tensor in batch()]
    narrow(lm)(*inputs).log_prob_T.sum().backward()
    again(*inputs).log_prob_T.sum().backward()
    for one, two in zip(lm.parameters(), again.lm.parameters(), strict=True):
        torch.testing.assert_close(two.grad, one.grad)


def test_autocast_keeps_no_copies_of_the_weights_of_a_trunk():
    lm = tiny_model()
    seen = []
    lm.model.norm.register_forward_hook(lambda *_: seen.append(torch.is_autocast_cache_enabled()))
    narrow(lm)(*batch())
    assert seen == [False]
    assert torch.is_autocast_cache_enabled()


def test_float32_is_left_alone_and_errors_leave_nothing_behind():
    trunk = tiny_model().base_model
    with lean_layers(trunk):
        assert not any("forward" in each.__dict__ for each in trunk.modules())
    trunk = tiny_model().base_model
    with pytest.raises(RuntimeError), torch.autocast("cpu", torch.bfloat16), lean_layers(trunk):
        raise RuntimeError
    assert not any("forward" in each.__dict__ for each in trunk.modules())


def test_foreign_forwards_and_modules_are_left_alone():
    lm = tiny_model()
    calls, norm = [], lm.model.norm
    own = norm.forward
    norm.forward = lambda x: calls.append(1) or own(x)
    narrow(lm)(*batch())
    assert len(calls) == 1
    assert "forward" in norm.__dict__
    lm = tiny_model()
    lm.model.norm = OtherRMSNorm()
    lm.model.layers[0].mlp.act_fn = nn.PReLU()  # trained, so its gradient must not get lost
    assert found(lm.base_model) == (4, 1)
    narrow(lm)(*batch()).log_prob_T.sum().backward()
    assert lm.model.layers[0].mlp.act_fn.weight.grad is not None


class OtherRMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(32)), 1e-6

    def forward(self, x):
        return 2 * nn.functional.rms_norm(x, [32], self.weight.to(x.dtype), self.eps)


def test_adapters_are_trained_through_lean_layers():
    pytest.importorskip("peft")
    lm = prepare_lm(ModelConfig(lora_rank=2), tiny_model())
    assert found(lm.base_model) == (5, 2)
    narrow(lm)(*batch()).log_prob_T.sum().backward()
    adapters = {n: w for n, w in lm.named_parameters() if "lora_B" in n}
    assert all(weight.grad.abs().sum() > 0 for weight in adapters.values())

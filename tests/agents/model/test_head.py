"""The head: log-probs and gradients of the plain computation in float64, whatever does the work.

The fused kernels are tested alike on a GPU (``-m gpu``), in bfloat16, where they may be twice as
far from the truth as a plain computation in bfloat16.
"""

import importlib.util
import logging
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F

from llm_gym_agents.model import head as module
from llm_gym_agents.model.head import Head, HeadShape, fused_kernel, liger_loss, token_log_probs
from tests.agents.tiny import tiny_model
from tests.matrix import some_of

TOKENS, CHANNELS, VOCABULARY = 70, 64, 300
HEADS = {
    "plain": {},
    "scaled": {"scale": 0.25},
    "capped": {"softcap": 5.0},
    "scaled and capped": {"scale": 0.5, "softcap": 3.0},
    "with a bias": {"bias": True},
    "with all": {"bias": True, "scale": 2.0, "softcap": 10.0},
}


def made(name, dtype=torch.float32, device="cpu"):
    chance = torch.Generator().manual_seed(1)
    settings = {"bias": False, "scale": 1.0, "softcap": None, **HEADS[name]}

    def drawn(*size, by=1.0):
        drawn = (by * torch.randn(size, generator=chance)).to(device, torch.bfloat16)
        return drawn.to(dtype).requires_grad_()

    weight, hidden = drawn(VOCABULARY, CHANNELS, by=0.3), drawn(TOKENS, CHANNELS)
    bias = drawn(VOCABULARY) if settings["bias"] else None
    token = torch.randint(VOCABULARY, (TOKENS,), generator=chance).to(device)
    return Head(weight, bias, settings["scale"], settings["softcap"]), hidden, token


def test_the_entropy_of_each_token_is_its_own_beside_a_fused_kernel(monkeypatch):
    head, hidden, token = made("plain")
    monkeypatch.setattr(module, "ENTROPY_TOKENS", 10)
    monkeypatch.setattr(module, "fused_kernel", lambda shape: _made_up)
    _, wanted = plain(head, hidden, token, 1.0)
    log_prob, each = token_log_probs(head, hidden, token, entropy="each")
    torch.testing.assert_close(each, wanted.detach())
    assert not each.requires_grad
    assert log_prob.equal(token_log_probs(head, hidden, token, entropy="none")[0])
    assert len(token_log_probs(head, hidden, token, entropy="metric")[1].unique()) == 1


def plain(head, hidden, token, temperature):
    """What every line of ``head`` must agree with, in as many words."""
    logits = F.linear(hidden, head.weight, head.bias) * head.scale
    if head.softcap is not None:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    table = torch.log_softmax(logits / temperature, -1)
    return table[torch.arange(len(token)), token], -(table.exp() * table).sum(-1)


def gradients(found, head, hidden, weight=1.0):
    """Gradients of a sum with signs, as a policy gradient has them."""
    signs = torch.where(torch.arange(TOKENS, device=found.device) % 3 == 0, 2.0, -1.0) * weight
    wanted = [each for each in (head.weight, hidden, head.bias) if each is not None]
    return torch.autograd.grad((found * signs.to(found)).sum(), wanted)


@pytest.mark.parametrize(("name", "rows", "temperature"), some_of(HEADS, [1, 7, 1000], [1.0, 0.7]))
def test_chunks_give_the_numbers_and_gradients_of_float64(name, temperature, rows, monkeypatch):
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", 4 * VOCABULARY * rows)
    head, hidden, token = made(name)
    truth = made(name, torch.float64)
    wanted, wanted_entropy = plain(*truth, temperature)
    found, entropy = token_log_probs(
        head, hidden, token, temperature=temperature, entropy="gradient"
    )
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy.double(), wanted_entropy, atol=1e-5, rtol=1e-5)
    ours = gradients(found + 0.1 * entropy, head, hidden)
    theirs = gradients(wanted + 0.1 * wanted_entropy, truth[0], truth[1])
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rows", [7, 1000])
def test_an_entropy_metric_has_its_value_and_no_gradient(rows, monkeypatch):
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", 4 * VOCABULARY * rows)
    head, hidden, token = made("plain")
    found, entropy = token_log_probs(head, hidden, token, entropy="metric")
    assert not entropy.requires_grad
    torch.testing.assert_close(entropy, plain(head, hidden, token, 1.0)[1])
    alone, none = token_log_probs(head, hidden, token)
    assert none is None
    for one, other in zip(
        gradients(found, head, hidden), gradients(alone, head, hidden), strict=True
    ):
        assert one.equal(other), "looking must not change a bit of the gradient"


def test_beside_a_fused_kernel_the_entropy_is_sampled_from_a_few_tokens(monkeypatch):
    monkeypatch.setattr(module, "ENTROPY_TOKENS", 10)
    monkeypatch.setattr(module, "fused_kernel", lambda shape: _made_up)
    head, hidden, token = made("with all")
    found, entropy = token_log_probs(head, hidden, token, temperature=0.7, entropy="metric")
    wanted, true = plain(head, hidden, token, 0.7)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, true[::7].mean().expand(TOKENS))


def _made_up(hidden, weight, bias, token, cap):
    logits = F.linear(hidden, weight, bias)
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    return F.cross_entropy(logits, token, reduction="none")


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", HEADS)
def test_a_kernel_gets_scale_cap_and_temperature(name, temperature, monkeypatch):
    monkeypatch.setattr(module, "fused_kernel", lambda shape: _made_up)
    head, hidden, token = made(name, torch.float64)
    found, _ = token_log_probs(head, hidden, token, temperature=temperature)
    wanted = plain(head, hidden, token, temperature)[0]
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
    for one, other in zip(
        gradients(found, head, hidden), gradients(wanted, head, hidden), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["llama", "cohere", "granite", "gemma3_text"])
def test_the_head_of_a_model_gives_the_models_own_logits(family, tied):
    lm = tiny_model(family, tie_word_embeddings=tied)
    ids = torch.arange(1, 20)[None]
    with torch.no_grad():
        hidden = lm.base_model(ids).last_hidden_state[0]
        torch.testing.assert_close(Head.of(lm).logits(hidden), lm(ids).logits[0])


def test_adapters_on_the_head_are_applied_and_have_gradients():
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=2, target_modules=["lm_head"], init_lora_weights=False)
    lm = peft.inject_adapter_in_model(settings, tiny_model(tie_word_embeddings=False))
    ids = torch.arange(1, 20)[None]
    hidden = lm.base_model(ids).last_hidden_state[0].detach()
    torch.testing.assert_close(Head.of(lm).logits(hidden), lm(ids).logits[0])
    token_log_probs(Head.of(lm), hidden, ids[0])[0].sum().backward()
    adapter = lm.lm_head.lora_B["default"].weight
    assert adapter.grad.abs().sum() > 0


# --- on a GPU ---------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("kernel", ["liger", "chunked"])
def test_fused_kernels_give_the_numbers_and_gradients_of_float64(
    kernel, name, temperature, monkeypatch
):
    if kernel == "liger":
        pytest.importorskip("liger_kernel")
        monkeypatch.setattr(module, "fused_kernel", lambda shape: liger_loss)
        monkeypatch.setattr(module, "_rows_held", lambda head, device: 1)
    truth = made(name, torch.float64, "cuda")
    wanted = plain(*truth, temperature)[0]
    head, hidden, token = made(name, torch.bfloat16, "cuda")
    rounded = plain(head, hidden, token, temperature)[0]
    found = token_log_probs(head, hidden, token, temperature=temperature)[0]
    allowed = 2 * (rounded.double() - wanted).abs().max() + 1e-3
    assert (found.double() - wanted).abs().max() <= allowed
    triples = zip(
        gradients(found, head, hidden),
        gradients(rounded, head, hidden),
        gradients(wanted, truth[0], truth[1]),
        strict=True,
    )
    for ours, theirs, true in triples:
        allowed = 2 * (theirs.double() - true).norm() + 1e-3 * true.norm()
        assert (ours.double() - true).norm() <= allowed


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(49_152, 576), (151_936, 896)])
def test_on_a_gpu_a_true_kernel_is_used_and_float32_weights_are_cast(shape):
    weight = torch.nn.Parameter(0.02 * torch.randn(shape, device="cuda"))
    hidden = torch.randn(2048, shape[1], device="cuda", requires_grad=True)
    token = torch.randint(shape[0], (2048,), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        head = Head(weight, None, 1.0, None)
        found, entropy = token_log_probs(head, hidden, token, entropy="metric")
        fused = module.fused_kernel(head.shape())
    assert fused is (liger_loss if importlib.util.find_spec("liger_kernel") else None)
    assert found.dtype == torch.float32
    found.mean().backward()
    assert weight.grad.dtype == hidden.grad.dtype == torch.float32
    truth = torch.log_softmax(hidden.detach() @ weight.detach().t(), -1)
    wanted = truth.gather(-1, token[:, None]).squeeze(-1)
    assert (found - wanted).abs().mean() < 0.02
    assert abs(float(entropy.mean() + (truth.exp() * truth).sum(-1).mean())) < 0.05


@pytest.mark.gpu
def test_a_few_tokens_on_a_gpu_are_left_to_plain_torch(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "fused_kernel", calls.append)
    weight = torch.nn.Parameter(0.02 * torch.randn(49_152, 576, device="cuda"))
    head, hidden = Head(weight, None, 1.0, None), torch.randn(400, 576, device="cuda")
    token = torch.randint(49_152, (400,), device="cuda")
    found, _ = token_log_probs(head, hidden, token)
    assert not calls
    truth = torch.log_softmax(hidden @ weight.detach().t(), -1)
    assert (found - truth.gather(-1, token[:, None]).squeeze(-1)).abs().max() < 0.02
    token_log_probs(head, hidden.repeat(8, 1), token.repeat(8))
    assert len(calls) == 1


SHAPE = HeadShape(torch.device("cuda"), torch.float32, 50, 8, bias=False, cap=None, trains=True)


@pytest.fixture
def liger(monkeypatch, caplog):
    """Put another kernel in Liger's place, on a card that is this CPU."""
    on_gpu, cpu = module._example, torch.device("cpu")
    monkeypatch.setattr(module, "_example", lambda shape: on_gpu(shape._replace(device=cpu)))
    monkeypatch.setattr(module, "_has_liger", lambda: True)
    caplog.set_level(logging.INFO)
    fused_kernel.cache_clear()
    yield lambda kernel: monkeypatch.setattr(module, "liger_loss", kernel)
    fused_kernel.cache_clear()


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (lambda hidden, *given: _made_up(1.1 * hidden, *given), "off by 0.1"),
        (lambda hidden, *given: _made_up(hidden * float("nan"), *given), "off by nan"),
        (Mock(side_effect=RuntimeError("no such architecture")), "no such architecture"),
    ],
)
def test_an_inexact_kernel_is_not_used(liger, caplog, kernel, why):
    liger(kernel)
    assert fused_kernel(SHAPE) is None
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert why in record.getMessage()


def test_an_exact_kernel_is_used_on_a_gpu_alone(liger, caplog):
    liger(_made_up)
    assert fused_kernel(SHAPE) is _made_up
    assert fused_kernel(SHAPE._replace(device=torch.device("cpu"))) is None
    assert caplog.records == []

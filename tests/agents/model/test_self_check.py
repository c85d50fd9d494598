"""A model that packed sequences are not right for is refused, and not trained on wrong numbers."""

from unittest.mock import Mock

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    GPTJConfig,
    GptOssConfig,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaMLP

from llm_gym.core.errors import ConfigError
from llm_gym_agents import ConfigStore
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.model.self_check import check_packed_reading
from tests.agents.checks import is_one_line
from tests.agents.tiny import FAMILIES, VOCABULARY, tiny_model

SHAPE = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
SMALL = {**SHAPE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def gpt_oss():
    """Attention has a sink, which ours does not know."""
    config = GptOssConfig(
        **SMALL, intermediate_size=32, num_key_value_heads=2, head_dim=8, num_local_experts=2
    )
    model = AutoModelForCausalLM.from_config(config)
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.sinks)
    return model


def gptj():
    """Attention of its own, which does not see where a sequence ends."""
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}
    return AutoModelForCausalLM.from_config(GPTJConfig(**SHAPE, **shape))


def falcon():
    """The same, and it cannot do without a mask."""
    return AutoModelForCausalLM.from_config(FalconConfig(**SMALL))


def t5():
    """No causal model at all."""
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    return T5ForConditionalGeneration(T5Config(**{**SHAPE, "pad_token_id": 0}, **shape))


@pytest.mark.parametrize("make", [gpt_oss, gptj, falcon, t5])
def test_a_model_that_is_not_scored_as_it_reads_is_refused(make):
    torch.manual_seed(0)
    with pytest.raises(ConfigError, match="Llama", check=is_one_line):
        Learner(make().eval(), ConfigStore().training)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "gemma2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_supported_families_pass(family, dtype):
    check_packed_reading(tiny_model(family).to(dtype), dtype)


def test_a_wrong_head_is_refused(monkeypatch):
    from llm_gym_agents.model import head

    monkeypatch.setattr(head, "logit_scaling", lambda config: (1.0, None))
    with pytest.raises(ConfigError, match="off by"):
        check_packed_reading(tiny_model("granite"), torch.float32)


@pytest.mark.parametrize("check", [check_packed_reading, lambda lm, _: TransformersEngine(lm)])
@pytest.mark.parametrize(
    "fault",
    [
        torch.OutOfMemoryError("out of memory"),
        torch.AcceleratorError("unspecified launch failure"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    ],
    ids=lambda fault: str(fault)[:6],
)
def test_a_hardware_error_is_raised_unchanged(monkeypatch, fault, check):
    monkeypatch.setattr(LlamaMLP, "forward", Mock(side_effect=fault))
    with pytest.raises(type(fault)) as caught:
        check(tiny_model("llama"), torch.float32)
    assert caught.value is fault


def test_attention_that_takes_no_float32_is_no_reason_to_refuse(monkeypatch):
    flash = Mock(side_effect=RuntimeError("FlashAttention only supports fp16 and bf16 data types"))
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "flash", flash)
    model = tiny_model("llama")
    model.config._attn_implementation = "flash"
    check_packed_reading(model, torch.float32)
    assert model.config._attn_implementation == "flash"

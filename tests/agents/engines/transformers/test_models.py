"""Which models the engine takes."""

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, BertConfig, BertModel
from transformers.models.auto.configuration_auto import AutoConfig

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import worst_error
from tests.agents.tiny import tiny_model

SHAPE = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
REFUSED = {
    "bloom": ({"n_layer": 2, "n_head": 2, "hidden_size": 16}, "position_ids"),
    "gpt_neo": (
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 2,
         "hidden_size": 16},
        "local attention",
    ),
    "falcon": (
        {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "alibi": True},
        "cannot be decoded",
    ),
    "mamba": ({"hidden_size": 16, "num_hidden_layers": 2}, "takes no"),
}  # fmt: skip


@pytest.mark.parametrize("family", REFUSED)
def test_an_unsupported_architecture_is_refused(family):
    settings, sentence = REFUSED[family]
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SHAPE, **settings))
    with pytest.raises(ConfigError, match=sentence):
        TransformersEngine(model)


def test_linear_attention_and_non_language_models_are_refused():
    model = tiny_model()
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ConfigError, match="linear_attention"):
        TransformersEngine(model)
    with pytest.raises(ConfigError, match="Linear"):
        TransformersEngine(nn.Linear(2, 2))
    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=9)
    with pytest.raises(ConfigError, match="BertModel"):
        TransformersEngine(BertModel(config))


def test_a_model_whose_decoding_differs_from_its_forward_is_refused(monkeypatch):
    logits = CausalModel.logits
    monkeypatch.setattr(CausalModel, "logits", lambda self, hidden: logits(self, hidden) * 1.01)
    with pytest.raises(ConfigError, match="decode"):
        TransformersEngine(tiny_model())


def test_a_model_with_uniform_logits_is_accepted():
    model = tiny_model()
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()
    done = TransformersEngine(model, end_ids=[]).generate([Request([1], Sampling(max_tokens=3))])
    assert done[0].log_probs == pytest.approx([-torch.tensor(264.0).log().item()] * 3)


def test_a_rotary_embedding_that_stretches_with_the_batch_bounds_the_context():
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0,
            "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}  # fmt: skip
    lengths = {"max_position_embeddings": 128, "original_max_position_embeddings": 32}
    model = tiny_model("phi3", rope_parameters=rope, **lengths)
    engine = TransformersEngine(model, end_ids=[])
    assert engine.context_length == 32
    requests = [Request([3] * n, Sampling(max_tokens=40), seed=n) for n in (2, 20)]
    assert worst_error(model, requests, engine.generate(requests)) <= 1e-5
    with pytest.raises(ConfigError, match="rotary"):
        TransformersEngine(model, context_length=64)


def test_a_peft_model_is_sampled_from_with_its_adapter():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = peft.get_peft_model(tiny_model(), config).eval()
    requests = [Request([at, 5], Sampling(max_tokens=8), seed=at) for at in range(4)]
    completions = TransformersEngine(model, end_ids=[]).generate(requests)
    assert worst_error(model, requests, completions) <= 1e-5
    with model.disable_adapter():
        assert worst_error(model, requests, completions) > 1e-2


@pytest.fixture
def coarse():
    """Products in TF32 allowed, as a learner on a GPU allows them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def test_the_check_of_a_model_runs_in_full_float32(coarse):
    lm, seen = tiny_model(), []
    lm.model.layers[0].register_forward_pre_hook(
        lambda *_: seen.append(torch.get_float32_matmul_precision())
    )
    TransformersEngine(lm).close()
    assert set(seen) == {"highest"}
    assert torch.get_float32_matmul_precision() == "high"

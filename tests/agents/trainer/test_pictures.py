"""A model that reads pictures as well is trained on text, like any other."""

import pytest
import torch
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, SiglipVisionConfig

from llm_gym_agents.model.load import ModelShape, load_model
from tests.agents.checks import copied, same
from tests.agents.small_run import Odd, small, trained
from tests.agents.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def gemma():
    torch.manual_seed(0)
    text = tiny_model("gemma3_text").config
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    sight = SiglipVisionConfig(**small, num_attention_heads=2, image_size=28, patch_size=14)
    config = Gemma3Config(text_config=text, vision_config=sight, mm_tokens_per_image=4)
    return Gemma3ForConditionalGeneration(config).eval()


def letters(episode):
    return sum(map(ord, episode.actions[0])) % 7


def test_a_vision_model_is_trained_on_the_log_probs_that_sampled(tmp_path, gemma):
    seen = copied(gemma)
    whole = {"model": gemma, "tokenizer": tiny_tokenizer()}
    [row] = trained(small(tmp_path), Odd, letters, **whole).metrics_history
    assert row["mismatch/log_prob_max"] < 1e-5
    moved = {name for name, weight in gemma.state_dict().items() if not weight.equal(seen[name])}
    assert any("language_model" in name for name in moved)
    assert not any("vision" in name for name in moved), "it has seen no picture"
    again = load_model(str(tmp_path / "final"), device="cpu")
    assert same(again.state_dict(), gemma.state_dict())


def test_the_size_of_a_vision_model_is_known_before_it_is_loaded(gemma):
    shape = ModelShape.of(gemma.config)
    assert shape.parameters == sum(weight.numel() for weight in gemma.parameters())
    assert (shape.layers, shape.hidden, shape.kv_width) == (2, 32, 16)

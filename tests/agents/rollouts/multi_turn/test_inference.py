"""Text in, text out."""

import importlib.util

import numpy as np
import pytest
import torch

from llm_gym.core.errors import ConfigError, MissingExtraError
from llm_gym_agents.engines.inference import (
    BaseInferenceEngine,
    BatchInferenceManager,
    SGLangInferenceEngine,
    VLLMInferenceEngine,
    create_inference_engine,
)
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import log_probs
from tests.agents.tiny import save_tiny, tiny_model, tiny_tokenizer

PROMPTS = ["Hello, how are you?", "Go north.", "Ünïcödé 🙂", "x"]


@pytest.fixture(scope="module")
def engine():
    tokenizer = tiny_tokenizer(pad=False)
    return BaseInferenceEngine(TransformersEngine(tiny_model(), tokenizer=tokenizer), tokenizer)


def test_an_engine_is_created_from_a_model_folder(tmp_path):
    engine = create_inference_engine(
        model_path=save_tiny(tmp_path),
        backend="transformers",
        config={"dtype": "float32", "tensor_parallel_size": 1, "max_model_len": 256},
    )
    output = engine.generate(prompts=PROMPTS, max_tokens=8, temperature=0.7, top_p=0.9)
    assert len(output.sequences) == 4
    assert output.tokens.shape == output.log_probs.shape == (4, output.lengths.max())
    assert all(isinstance(text, str) for text in output.sequences)
    engine.close()


def test_log_probs_are_those_of_a_plain_forward(engine):
    output = engine.generate(PROMPTS, max_tokens=20, temperature=0.8, top_p=0.5, seed=1)
    for row, prompt in enumerate(PROMPTS):
        ids = output.tokens[row, : output.lengths[row]].tolist()
        wanted = log_probs(engine.engine.model, engine.tokenizer.encode(prompt), ids, 0.8)
        assert output.log_probs[row, : len(ids)] == pytest.approx(wanted, abs=1e-5)
        assert output.sequences[row] == engine.tokenizer.decode(ids, skip_special_tokens=True)


def test_a_sampled_end_of_text_counts_even_if_it_is_the_padding(engine):
    assert engine.tokenizer.pad_token_id is None
    assert engine.tokenizer.eos_token_id == 258
    model = tiny_model()
    with torch.no_grad():  # every hidden state now points at the end of text, more or less
        model.get_output_embeddings().weight[258] *= 4
    ending = BaseInferenceEngine(TransformersEngine(model), engine.tokenizer)
    output = ending.generate(["abc"] * 40, max_tokens=30, temperature=1.0, top_p=1.0, seed=0)
    ended = [row for row, why in enumerate(output.finish_reasons) if why == "stop"]
    assert len(ended) > 5
    assert len(set(output.lengths[ended])) > 1
    for row in ended:
        length = output.lengths[row]
        assert output.tokens[row, length - 1] == 258
        assert output.log_probs[row, length - 1] < 0  # it was sampled, and counts
        assert (output.tokens[row, length:] == 258).all()  # the rest is padding
        assert (output.log_probs[row, length:] == 0).all()
    ids = [output.tokens[row, : output.lengths[row]] for row in range(40)]
    sums = ending.compute_log_probs(["abc"] * 40, ids)
    assert sums.numpy() == pytest.approx(output.log_probs.sum(1), abs=1e-4)


def test_summed_log_probs_of_texts(engine):
    responses = ["fine", "", "🙂", "a longer one"]
    found = engine.compute_log_probs(PROMPTS, responses)
    assert found.shape == (4,)
    assert found.dtype == torch.float32
    for prompt, response, total in zip(PROMPTS, responses, found.tolist(), strict=True):
        before = engine.tokenizer.encode(prompt)
        ids = list(response.encode())
        wanted = sum(log_probs(engine.engine.model, before, ids)) if ids else 0.0
        assert total == pytest.approx(wanted, abs=1e-4)
    with pytest.raises(ConfigError, match="got 4 and 1"):
        engine.compute_log_probs(PROMPTS, ["one"])


def test_sampling_depends_on_the_seed_and_no_prompts_give_no_replies(engine):
    def run(**settings):
        return engine.generate(PROMPTS, max_tokens=12, **settings).tokens.tolist()

    assert run(seed=3) == run(seed=3)
    assert run(seed=3) != run(seed=4)
    assert run() != run()
    assert run(temperature=0) == run(temperature=0)
    output = engine.generate([])
    assert output.sequences == []
    assert output.tokens.shape == (0, 0)


def test_every_setting_of_generate_has_an_effect(engine):
    greedy = engine.generate(PROMPTS, 12, temperature=0).tokens.tolist()
    tokens = engine.generate(PROMPTS, 12, temperature=1.5, top_p=1e-6, seed=5).tokens
    assert tokens.tolist() == greedy
    several = engine.generate(PROMPTS, 5, n=3, seed=1)
    assert len(several.sequences) == 12
    assert several.tokens[::3].tolist() == engine.generate(PROMPTS, 5, seed=1).tokens.tolist()
    assert len({tuple(row) for row in several.tokens[:3].tolist()}) == 3
    free = engine.generate(["x"], 60, seed=9).sequences[0]
    letter = next(letter for letter in free[5:] if letter.isascii() and letter.isprintable())
    stopped = engine.generate(["x"], 60, seed=9, stop=letter)
    assert stopped.sequences[0] == free[: free.index(letter) + 1]
    assert stopped.finish_reasons == ["stop"]


@pytest.mark.parametrize(
    ("prompts", "what"), [("one text", "list"), ([3], "int"), (["a" * 600], "511 tokens")]
)
def test_prompts_that_cannot_be_answered_are_refused(engine, prompts, what):
    with pytest.raises(ConfigError, match=what):
        engine.generate(prompts)


@pytest.mark.parametrize("kind", [VLLMInferenceEngine, SGLangInferenceEngine])
def test_other_backends_need_their_extra(kind, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install"):
        kind("some/model")


def test_the_factory_refuses_unknown_backends_and_missing_folders(tmp_path):
    with pytest.raises(ConfigError, match="backend"):
        create_inference_engine("some/model", backend="tgi")
    with pytest.raises(ConfigError, match="no model folder"):
        create_inference_engine(str(tmp_path / "nothing"))


# --- many prompts -------------------------------------------------------------------------


def test_batches_give_the_replies_of_one_call(engine, capsys):
    prompts = [f"{at} is {'a number ' * (at % 4)}" for at in range(20)]
    wanted = engine.generate(prompts, max_tokens=9, seed=2)
    manager = BatchInferenceManager(engine, batch_size=7)
    output = manager.generate_batch(prompts, max_tokens=9, seed=2)
    assert output.sequences == wanted.sequences
    assert np.array_equal(output.tokens, wanted.tokens)
    assert "Generating" in capsys.readouterr().out


def test_a_manager_runs_one_batch_at_a_time_and_survives_an_error(engine, monkeypatch):
    manager, most = BatchInferenceManager(engine, batch_size=6, progress=False), []
    poll = TransformersEngine.poll
    with monkeypatch.context() as patch:
        patch.setattr(
            TransformersEngine, "poll", lambda self: most.append(self.running) or poll(self)
        )
        manager.generate_batch([f"prompt {at}" for at in range(25)], max_tokens=10)
        assert max(most) == 6
        patch.setattr(TransformersEngine, "poll", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            manager.generate_batch(PROMPTS * 3, max_tokens=4)
    assert engine.engine.running == 0
    assert len(manager.generate_batch(PROMPTS, max_tokens=2).sequences) == 4
    with pytest.raises(ConfigError, match="batch_size"):
        BatchInferenceManager(engine, batch_size=0)

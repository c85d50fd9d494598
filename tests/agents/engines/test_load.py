"""From a path and settings to an engine; patterns as grammar compilers like them."""

import functools
import importlib.util
import re
import string

import pytest
import torch

from llm_gym.core.errors import ConfigError, MissingExtraError, install_command
from llm_gym_agents.engines import load
from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.inference import BaseInferenceEngine
from llm_gym_agents.engines.load import load_engine
from llm_gym_agents.engines.replies import portable_pattern
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.engines.vllm.engine import VLLMEngine
from tests.agents.checks import is_one_line
from tests.agents.tiny import save_tiny


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"), pad=False)


def test_an_engine_is_loaded_with_its_tokenizer(path):
    engine, tokenizer = load_engine(path)
    assert isinstance(engine, TransformersEngine)
    assert engine.tokenizer is tokenizer
    assert engine.context_length == 512
    assert next(engine.model.parameters()).dtype == torch.float32
    reply = engine.generate([Request(tokenizer.encode("hello"), Sampling(max_tokens=3))])[0]
    assert len(reply.ids) == 3


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16
def test_every_setting_has_an_effect(path):
    config = {
        "dtype": "bfloat16",
        "device": "cpu",
        "max_model_len": 40,
        "attn_implementation": "eager",
        "max_rows": 3,
        "prefix_cache": False,
        "tensor_parallel_size": 1,
        "trust_remote_code": True,
    }
    assert set(config) == set(load.settings_of("transformers"))
    engine, _ = load_engine(path, "transformers", config)
    assert engine.model.dtype == torch.bfloat16
    assert engine.context_length == 40
    assert engine.model.config._attn_implementation == "eager"
    assert engine._decoder.pool.count == 3
    assert not engine._decoder.pool.keep


@pytest.mark.parametrize(
    ("backend", "name", "value", "what"),
    [
        ("transformers", "max_modellen", 3, "max_model_len"),
        ("transformers", "tensor_parallel_size", 2, "tensor_parallel_size"),
        ("transformers", "dtype", "int3", "dtype"),
        ("transformers", "device", "gpu", "gpu"),
        ("transformers", "max_rows", "many", "max_rows"),
        ("transformers", "max_model_len", 2.5, "max_model_len"),
        ("transformers", "trust_remote_code", "False", "trust_remote_code"),
        ("vllm", "zzz", 3, "'zzz'"),
        ("vllm", "sleeps", "no", "sleeps"),
        ("sglang", "stall_s", "long", "stall_s"),
        ("tgi", "dtype", "auto", "backend"),
    ],
)
def test_wrong_engine_settings_are_a_one_line_error(path, backend, name, value, what):
    with pytest.raises(ConfigError, match=what, check=is_one_line):
        load_engine(path, backend, {name: value})


@pytest.mark.parametrize("where", ["", "/no/such/model", "./no_such", "~/no_such", "a/b/c"])
def test_a_missing_or_empty_folder_is_a_one_line_error(where, tmp_path):
    what = f"no model folder '{where}'" if where else "config.json"
    with pytest.raises(ConfigError, match=what, check=is_one_line):
        load_engine(where or str(tmp_path))


@pytest.mark.parametrize("name", ["n", "batch_size"])
def test_a_negative_count_is_refused(path, name):
    engine = BaseInferenceEngine(*load_engine(path))
    with pytest.raises(ConfigError, match=name):
        engine.generate(["hello"], **{name: -1})


SERVED = {"vllm": VLLMEngine, "sglang": SGLangEngine}


@pytest.mark.parametrize("backend", SERVED)
def test_a_missing_extra_is_an_error_before_anything_is_loaded(backend, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as found:
        load_engine("/no/such/model", backend, {"tensor_parallel_size": 2})
    assert install_command(backend) in str(found.value)
    assert isinstance(found.value, ImportError)


@pytest.mark.parametrize(("backend", "kind"), SERVED.items())
def test_a_served_engine_gets_its_settings_and_a_tokenizer(path, backend, kind, monkeypatch):
    given = {}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())

    @functools.wraps(kind.__init__)
    def note(self, path, **settings):
        given.update(settings, path=path)

    monkeypatch.setattr(kind, "__init__", note)
    engine, tokenizer = load_engine(path, backend, {"dtype": "float32", "max_rows": 3})
    assert type(engine) is kind
    assert given == {"path": path, "tokenizer": tokenizer, "dtype": "float32", "max_rows": 3}
    assert tokenizer.pad_token == "<eos>"


@pytest.mark.parametrize("text", ["go to #1.", "a \\ b", "\\", "\\\\ ", "~ & -", string.printable])
def test_a_portable_pattern_matches_the_same_text(text):
    pattern = portable_pattern(re.escape(text))
    assert re.fullmatch(pattern, text)
    assert not re.fullmatch(pattern, f"{text} ")
    assert not re.search(r"(?<!\\)(\\\\)*\\[ #&~\s]", pattern)


@pytest.mark.parametrize("pattern", [r"\d+\.\d+", r"[a-z]{2}", r"\\ ", r"(go|look)\b", r"\-"])
def test_other_patterns_are_unchanged(pattern):
    assert portable_pattern(pattern) == pattern

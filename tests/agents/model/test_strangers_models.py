"""Folders of models that came from somewhere: loaded, or one sentence; nothing runs or hangs."""

import json
import pickle
from pathlib import Path

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym.tools.sandbox.bounded import EndlessError, run_bounded
from llm_gym_agents.model import load
from llm_gym_agents.model.load import load_config, load_model, load_tokenizer
from llm_gym_agents.text.template import Renderer, cut_template
from tests.agents.tiny import save_tiny


@pytest.fixture(autouse=True)
def run_bounded_here():
    """Let children run here: their limits are what is tested."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "_BUILD_S", 3)  # of processor time
    return Path(save_tiny(tmp_path / "model"))


def edit(path, **settings):
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_a_plain_folder_is_loaded(folder):
    assert load_model(str(folder), device="cpu").config.model_type == "llama"


@pytest.mark.parametrize(
    "settings",
    [
        {"num_hidden_layers": 10**12},
        {"vocab_size": 10**9},
        {"intermediate_size": 10**9},
        {"head_dim": 10**12},
        {"max_position_embeddings": 10**15, "num_hidden_layers": 300},
        {"num_hidden_layers": "many"},
        {"hidden_size": None},
        {"_attn_implementation": "evil/kernel"},
        {"attn_implementation": "evil/kernel:function"},
        {"attn_implementation": {"": "evil/kernel"}},
        {"model_type": "none of all"},
        {"auto_map": {"AutoModelForCausalLM": "evil.Model"}, "model_type": "evil"},
    ],
    ids=str,
)
def test_a_config_that_no_machine_can_build_is_refused(folder, settings, monkeypatch):
    monkeypatch.setattr(load, "_BUILD_S", 1)
    edit(folder / "config.json", **settings)
    with pytest.raises(ConfigError, match="model"):
        load_model(str(folder), device="cpu")


class Planted:
    def __reduce__(self):
        return exec, ("raise SystemExit('ran')",)


def damage_header(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)


def pickled_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"a": Planted()}, folder / "pytorch_model.bin", pickle_module=pickle)


def deep_config(folder):
    (folder / "config.json").write_text('{"a":' * 10_000)


@pytest.mark.parametrize("damage", [damage_header, pickled_weights, deep_config])
def test_damaged_files_are_refused(folder, damage):
    damage(folder)
    with pytest.raises(ConfigError, match="model"):
        load_model(str(folder), device="cpu")
    if damage is deep_config:
        with pytest.raises(ConfigError, match="model"):
            load_config(str(folder))


LOOP = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
USUAL = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [
        LOOP,
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'x' * 10 ** 11 }}",
        USUAL + "{% if messages[0].role == 'system' %}" + LOOP + "{% endif %}",
        USUAL + "{% if not add_generation_prompt %}{{ '%99999999999s' % 1 }}{% endif %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
    ],
)
def test_a_chat_template_that_does_not_end_is_refused(folder, template, monkeypatch):
    usual = run_bounded
    monkeypatch.setattr(
        "llm_gym.tools.sandbox.bounded.run_bounded", lambda work: usual(work, cpu_s=1)
    )
    tokenizer = load_tokenizer(str(folder))
    tokenizer.chat_template = template
    with pytest.raises(ConfigError, match="chat template"):
        cut_template(Renderer(tokenizer, {}))


def test_bounded_work_returns_raises_or_is_given_up():
    assert run_bounded(lambda: "é" * 10**6) == "é" * 10**6
    with pytest.raises(ValueError, match="KeyError: 'a'"):
        run_bounded(lambda: {}["a"])
    with pytest.raises(EndlessError):
        run_bounded(lambda: "x" * 10**10, memory=1 << 28)
    with pytest.raises(EndlessError):
        run_bounded(lambda: next(each for each in iter(int, 1) if each), cpu_s=1)

"""What fits on a card is known before anything is loaded, with numbers known in advance."""

import dataclasses
import json
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from transformers import BloomConfig, LlamaConfig, dynamic_module_utils

from benchmarks.learn import train_gpu
from benchmarks.lib.machine import RESULTS
from llm_gym.core.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.model.load import ModelShape, load_config
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.build import check_memory, language_model, plan_run
from llm_gym_agents.trainer.memory_plan import ENGINE_OVERHEAD, GIB, OVERHEAD, plan_memory
from tests.agents.checks import is_one_line
from tests.agents.small_run import config_with
from tests.agents.tiny import save_tiny, tiny_model

SEVEN = ModelShape(
    parameters=7_000_000_000, hidden=3584, layers=28, mlp=18944, vocabulary=152_064, kv_width=512
)
H200 = 140 * GIB
MEASURED = json.loads((RESULTS / "train_gpu.json").read_text())["fits"]


def test_the_shape_of_a_model_is_read_without_making_it():
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=128, vocab_size=100, tie_word_embeddings=False,
    )  # fmt: skip
    attention, mlp = 64 * 64 * 2 + 2 * 64 * 32, 3 * 64 * 128
    parameters = 2 * 100 * 64 + 3 * (attention + mlp + 2 * 64) + 64
    assert ModelShape.of(config) == ModelShape(
        parameters=parameters, hidden=64, layers=3, mlp=128, vocabulary=100, kv_width=32, lean=True
    )


def test_all_weights_take_sixteen_bytes_each_and_with_adapters_the_base_is_kept_once():
    made, count = plan_memory(SEVEN, micro_batch_tokens=1, has_reference=True), SEVEN.parameters
    assert made.weights + made.gradients + made.optimizer == 16 * count
    assert (made.resident, made.reference) == (14 * count, 2 * count)
    assert plan_memory(SEVEN, micro_batch_tokens=1, optimizer_bytes=0).resident == 4 * count
    made = plan_memory(SEVEN, micro_batch_tokens=1, lora_rank=16, kept_bytes=2, has_reference=True)
    assert made.reference == 0
    assert 2 * count < made.resident < 2.5 * count


def test_checkpointing_keeps_little_of_each_layer_and_casts_a_layer_at_a_time():
    one = plan_memory(SEVEN, micro_batch_tokens=8192, checkpointing=True).activations
    two = plan_memory(SEVEN, micro_batch_tokens=16384, checkpointing=True).activations
    deep = dataclasses.replace(SEVEN, layers=56, parameters=2 * SEVEN.parameters)
    deeper = plan_memory(deep, micro_batch_tokens=8192, checkpointing=True).activations
    assert one < two < 2 * one
    assert deeper - one == 2 * 8192 * 3584 * 28

    def activations(**settings):
        return plan_memory(SEVEN, micro_batch_tokens=0, **settings).activations

    head = activations(narrow=False)
    assert activations() - head == 2 * SEVEN.parameters
    assert activations(checkpointing=True) - head == 2 * SEVEN.parameters // SEVEN.layers
    assert activations(lora_rank=8, kept_bytes=2) == head


def test_a_plan_that_does_not_fit_is_refused_with_its_numbers():
    made = plan_memory(SEVEN, micro_batch_tokens=16384)
    with pytest.raises(ConfigError, match=r"140\.0 \(weights 26\.1.*model\.lora_rank"):
        made.check(H200)
    plan_memory(
        SEVEN, micro_batch_tokens=8192, lora_rank=16, kept_bytes=2, checkpointing=True
    ).check(H200)


def test_the_plan_counts_an_awake_engine_and_gives_vllm_its_share():
    asleep = plan_memory(SEVEN, micro_batch_tokens=1, engine_tokens=1000)
    awake = plan_memory(SEVEN, micro_batch_tokens=1, engine_tokens=1000, engine_sleeps=False)
    cache = 1000 * 28 * 2 * 512 * 2
    assert asleep.engine == 2 * SEVEN.parameters + cache
    assert awake.learning - asleep.learning == asleep.engine
    assert asleep.playing == asleep.resident + asleep.engine + OVERHEAD + ENGINE_OVERHEAD
    made = plan_memory(SEVEN, micro_batch_tokens=1, engine_tokens=1000)
    wanted = 30 * GIB + made.engine + ENGINE_OVERHEAD
    assert made.engine_share(used=30 * GIB, total=H200) == round(wanted / H200, 3)
    assert made.engine_share(used=139 * GIB, total=H200) == 0.95


@pytest.fixture
def on_a_card(tmp_path, monkeypatch):
    """Return the config of a run on a GPU of one GiB."""
    config = config_with(model__device="cuda", model__model_name=save_tiny(tmp_path / "model"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Mock(total_memory=GIB))
    return config


def test_a_run_that_cannot_fit_loads_nothing(on_a_card, monkeypatch):
    monkeypatch.setattr(build, "load_model", lambda *args, **kwargs: pytest.fail("it was loaded"))
    with pytest.raises(ConfigError, match=r"1\.0"):
        language_model(on_a_card, "llm_gym/Echo-v0")


@pytest.mark.parametrize(
    ("own", "what"),
    [
        (None, "there"),
        ({"model_type": "nonsense"}, "there"),
        ({"model_type": "mamba"}, "MambaConfig"),
    ],
)
def test_a_missing_or_unknown_model_is_a_one_line_error(on_a_card, tmp_path, own, what):
    if own is not None:
        (tmp_path / "there").mkdir()
        (tmp_path / "there/config.json").write_text(json.dumps(own))
    with pytest.raises(ConfigError, match=what, check=is_one_line):
        check_memory(on_a_card, str(tmp_path / "there"))


def test_the_plan_follows_the_settings():
    config, own = ConfigStore(), tiny_model().config
    plain = plan_run(config, own)
    assert (plain.engine, plain.optimizer) == (0, 8 * tiny_model().num_parameters())
    config.inference.backend = "vllm"
    assert plan_run(config, own).engine > 0
    assert plan_run(config, own).engine_sleeps
    config.inference.engine = {"sleeps": False}
    assert not plan_run(config, own).engine_sleeps
    config.training.optimizer = "adamw_paged"
    assert plan_run(config, own).optimizer == 0
    config.model.gradient_checkpointing = True
    assert plan_run(config, own).activations < plain.activations
    config.model.lora_rank = 8
    assert plan_run(config, own).optimizer > 0, "adapters are too small to be paged"


def test_a_model_without_a_context_length_gets_room_for_vllms_default(monkeypatch):
    monkeypatch.setattr(build, "plan_memory", lambda *_, **settings: settings["engine_tokens"])
    config = config_with(inference__backend="vllm", inference__num_envs=1)
    own = BloomConfig(n_layer=1, n_head=2, hidden_size=16, vocab_size=64)
    assert plan_run(config, own) == 2048
    config.inference.engine = {"max_model_len": 100}
    assert plan_run(config, own) == 100


@pytest.mark.parametrize(("total", "sleeps"), [(141, False), (18, True)])
def test_an_engine_sleeps_only_if_memory_is_short(monkeypatch, total, sleeps):
    config = config_with(inference__backend="vllm")
    lm = SimpleNamespace(device=torch.device("cuda"), config=tiny_model().config)
    card = ((total - 10) * GIB, total * GIB)  # 10 are used by others
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: card)
    assert build.vllm_memory_settings(config, lm)["sleeps"] is sleeps


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_an_8bit_optimizer_is_refused_on_a_cpu():
    pytest.importorskip("bitsandbytes")
    from llm_gym_agents.learn.optimizer import _bitsandbytes

    with pytest.raises(ConfigError, match="cpu"):
        _bitsandbytes("adamw_8bit", torch.device("cpu"))


@pytest.mark.parametrize("row", MEASURED["rows"], ids=lambda row: f"{row['model']}-{row['kind']}")
def test_no_measured_run_took_more_memory_than_planned(row):
    assert "--micro 8192" in MEASURED["command"]
    now = train_gpu.planned(row["model"], row["kind"], 8192).learning / GIB
    if row["fits"]:
        assert row["peak_gib"] <= min(row["planned_gib"], now)
    else:
        assert min(row["planned_gib"], now) > H200 / GIB


def test_a_model_with_custom_code_is_planned_only_if_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    model_config = tiny_model().config.to_dict() | {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    }
    (folder / "config.json").write_text(json.dumps(model_config))
    own = load_config(str(folder), trust_remote_code=True)
    with pytest.raises(ConfigError, match="OwnConfig"):
        plan_run(ConfigStore(), own)
    trusted = config_with(model__trust_remote_code=True)
    assert plan_run(trusted, own).weights == 4 * tiny_model().num_parameters()

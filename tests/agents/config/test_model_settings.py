"""``model``, the optimizer and ``inference``: weights, engines, waiting rows."""

import importlib.util

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn import learner
from llm_gym_agents.model.cuda_graphs import GraphCache
from llm_gym_agents.rollouts.tasks import ReplyStatus
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.build import language_model
from tests.agents.config.effect_run import ECHO, configured, play, settings
from tests.agents.engines.sglang.stand_in import FixedSampler, StandIn
from tests.agents.players import player_at_chance
from tests.agents.scripted import ScriptedEngine
from tests.agents.text.chat_templates import FAMILIES, build_tokenizer
from tests.agents.tiny import save_tiny


def test_a_model_is_loaded_from_where_the_config_says(tmp_path):
    folder = save_tiny(tmp_path / "model", hidden_size=16)
    lm, tokenizer = language_model(configured({"model.model_name": folder}, tmp_path), ECHO)
    assert lm.config.hidden_size == 16
    assert tokenizer.chat_template is not None


def test_the_tiny_model_has_the_layers_of_the_config(tmp_path):
    lm, _ = language_model(configured({"model.tiny_layers": 3}, tmp_path), ECHO)
    assert lm.config.num_hidden_layers == 3


@pytest.mark.parametrize("folder", [True, False])
def test_weights_have_the_precision_of_the_config(folder, tmp_path):
    given = {"model.model_name": save_tiny(tmp_path / "model")} if folder else {}
    lm, _ = language_model(
        configured(given | {"model.dtype": "bfloat16", "model.lora_rank": 2}, tmp_path), ECHO
    )
    kept = {name: weight.dtype for name, weight in lm.named_parameters()}
    assert {dtype for name, dtype in kept.items() if "lora_" not in name} == {torch.bfloat16}
    assert {dtype for name, dtype in kept.items() if "lora_" in name} == {torch.float32}


def test_only_a_trusted_model_may_run_its_code(tmp_path, monkeypatch):
    folder, trusted = save_tiny(tmp_path / "model"), []
    load = AutoModelForCausalLM.from_pretrained

    def note(path, **how):
        trusted.append(how["trust_remote_code"])
        return load(path, **how)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", note)
    for trust in (False, True):
        given = {"model.model_name": folder, "model.trust_remote_code": trust}
        language_model(configured(given, tmp_path), ECHO)
    assert trusted == [False, True]


def test_passes_are_recorded_as_graphs_where_that_is_possible(tmp_path, monkeypatch):
    passes = []
    monkeypatch.setattr(GraphCache, "hidden", lambda self, ids, lengths: passes.append(ids))
    play({}, tmp_path / "cpu")
    assert not passes
    monkeypatch.setattr(learner, "can_capture", lambda model, dtype: True)
    play({}, tmp_path / "gpu")
    assert passes


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is not None, reason="it is there")
def test_an_optimizer_that_is_not_installed_is_an_error(tmp_path):
    with pytest.raises(LLMGymError, match=r"training\.optimizer"):
        play({"training.optimizer": "adamw_8bit"}, tmp_path)


def built_engine(given, folder):
    lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return build.build_engine(configured(given, folder), lm, tokenizer)


def test_the_backend_setting_selects_the_engine(tmp_path):
    server = StandIn(FixedSampler())
    given = settings(inference__backend="sglang", inference__engine={"url": server.url})
    engine = built_engine(given, tmp_path)
    assert isinstance(engine, SGLangEngine)
    assert isinstance(built_engine({}, tmp_path), TransformersEngine)
    engine.close()
    server.close()


def test_a_served_engine_gets_the_engine_settings(tmp_path, monkeypatch):
    given_settings = []
    monkeypatch.setattr(
        build, "load_engine", lambda path, backend, how: given_settings.append(how) or [None]
    )
    given = settings(
        inference__backend="vllm",
        model__dtype="bfloat16",
        model__trust_remote_code=True,
        inference__engine={"tensor_parallel_size": 2},
    )
    built_engine(given, tmp_path)
    wanted = {"tensor_parallel_size": 2, "dtype": "bfloat16", "trust_remote_code": True}
    assert given_settings == [wanted]


def test_variables_of_the_chat_template_reach_it(tmp_path):
    tokenizer = build_tokenizer(FAMILIES["chatml"])
    given = settings(inference__template_options={"enable_thinking": False})
    policy = build.build_policy(configured(given, tmp_path), ScriptedEngine(), tokenizer)
    assert tokenizer.decode(policy.chat.opening("", "Hello")).endswith("<think>\n\n</think>\n\n")


class Parrot(ScriptedEngine):
    """An engine of one's own: a class with a path, a tokenizer and settings."""

    def __init__(self, path, *, tokenizer, word="red", dtype="auto"):
        super().__init__(say=lambda request: [*tokenizer.encode(word, add_special_tokens=False)])
        self.settings = (word, dtype)


def test_a_custom_engine_is_named_by_module_and_class(tmp_path):
    given = settings(
        inference__backend=f"{__name__}:Parrot",
        inference__engine={"word": "blue"},
        model__dtype="float32",
    )
    engine = built_engine(given, tmp_path)
    assert isinstance(engine, Parrot)
    assert engine.settings == ("blue", "float32")
    with pytest.raises(ConfigError, match=r"'wrod'.*word"):
        built_engine(given | settings(inference__engine={"wrod": "blue"}), tmp_path)
    for name in ("settings", "not_there"):
        with pytest.raises(ConfigError, match=name):
            built_engine({"inference.backend": f"{__name__}:{name}"}, tmp_path)


def test_settings_of_the_engine_reach_it(tmp_path):
    engine = built_engine({"inference.engine": {"max_rows": 3, "prefix_cache": False}}, tmp_path)
    assert (engine._decoder.pool.count, engine._decoder.pool.keep) == (3, False)
    assert built_engine({}, tmp_path)._decoder.pool.count != 3
    for wrong in ({"device": "cpu"}, {"gpu_memory_utilization": 0.5}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            built_engine({"inference.engine": wrong}, tmp_path)


@pytest.mark.parametrize("backend", ["transformers", "vllm", "sglang"])
def test_only_served_engines_reply_to_some_rows_while_others_wait(backend, tmp_path):
    config = configured({"inference.backend": backend}, tmp_path)
    _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    engine = ScriptedEngine(lambda running: running[:1])
    policy = build.build_policy(config, engine, tokenizer)
    pool = build.build_pool(config, ECHO, rows=8)
    policy.texts = pool.texts
    waiting = (policy(pool.reset())["status"] == ReplyStatus.PENDING).sum().item()
    assert waiting == (0 if backend == "transformers" else 7)

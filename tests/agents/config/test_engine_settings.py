"""``inference``: which engine answers, how it is served, and who waits for whom."""

import importlib.util

import pytest

from llm_gym.errors import ConfigError, MissingExtraError
from llm_gym_agents.distributed import build
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.rollouts.tasks import ReplyStatus
from tests.agents.config.effect_run import ECHO, configured, play, settings
from tests.agents.engines.sglang.stand_in import FixedSampler, StandIn
from tests.agents.players import player_at_chance
from tests.agents.scripted import ScriptedEngine


def built_engine(given, folder):
    lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return build.build_engine(configured(given, folder), lm, tokenizer)


def test_another_backend_is_another_engine(tmp_path):
    server = StandIn(FixedSampler())
    given = settings(inference__backend="sglang", inference__engine={"url": server.url})
    engine = built_engine(given, tmp_path)
    assert isinstance(engine, SGLangEngine)
    assert isinstance(built_engine({}, tmp_path), TransformersEngine)
    engine.close()
    server.close()


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_a_backend_that_is_not_installed_is_an_error(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=f"needs {backend}"):
        built_engine({"inference.backend": backend}, tmp_path)


def test_a_served_engine_is_told_how_to_serve(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(build, "load_engine", lambda path, backend, how: told.append(how) or [None])
    given = settings(
        inference__backend="vllm",
        model__tensor_parallel_size=2,
        model__dtype="bfloat16",
        model__trust_remote_code=True,
        inference__engine={"eager": True},
    )
    built_engine(given, tmp_path)
    wanted = {"tensor_parallel_size": 2, "dtype": "bfloat16", "trust_remote_code": True}
    assert told == [{**wanted, "eager": True}]
    with pytest.raises(ConfigError, match=r"model\.tensor_parallel_size above 1 needs"):
        play({"model.tensor_parallel_size": 2}, tmp_path)


def test_settings_of_the_engine_reach_it(tmp_path):
    engine = built_engine({"inference.engine": {"max_rows": 3, "prefix_cache": False}}, tmp_path)
    assert (engine._decoder.pool.count, engine._decoder.pool.keep) == (3, False)
    assert built_engine({}, tmp_path)._decoder.pool.count != 3
    for wrong in ({"device": "cpu"}, {"gpu_memory_utilization": 0.5}):
        with pytest.raises(ConfigError, match=f"transformers has no setting '{next(iter(wrong))}'"):
            built_engine({"inference.engine": wrong}, tmp_path)


@pytest.mark.parametrize(
    ("backend", "said", "waits"),
    [
        ("transformers", None, True),
        ("transformers", False, False),
        ("vllm", None, False),
        ("sglang", None, False),
        ("vllm", True, True),
    ],
)
def test_a_barrier_is_what_was_said_or_what_suits_the_backend(backend, said, waits, tmp_path):
    config = configured({"inference.backend": backend, "inference.sync_replies": said}, tmp_path)
    _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    assert build.build_policy(config, ScriptedEngine(), tokenizer).sync_replies is waits


def test_without_a_barrier_some_move_while_others_wait(tmp_path):
    def waits(given):
        config = configured(given, tmp_path)
        _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
        engine = ScriptedEngine(lambda running: running[:1])
        policy = build.build_policy(config, engine, tokenizer)
        pool = build.build_pool(config, ECHO, rows=8)
        policy.texts = pool.texts
        return (policy(pool.reset())["status"] == ReplyStatus.PENDING).sum().item()

    assert waits({}) == 0
    assert waits({"inference.sync_replies": False}) == 7

"""Memory settings and the model folder that reach vLLM."""

import fcntl
import importlib.machinery
import os
import sys
import types

import pytest

from llm_gym_agents.engines.vllm import runtime


class LLM:
    def __init__(self, path, **settings):
        self.settings, self.cpu_cache = settings, os.environ["VLLM_CPU_KVCACHE_SPACE"]
        self.path, self.lies_in = path, os.path.realpath(path)


@pytest.fixture
def started(monkeypatch, tmp_path):
    def start(path="model", is_cpu=False, **settings):
        vllm, platforms = types.ModuleType("vllm"), types.ModuleType("vllm.platforms")
        vllm.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
        vllm.LLM, vllm.envs = LLM, types.SimpleNamespace(VLLM_CACHE_ROOT=str(tmp_path / "cache"))
        platforms.current_platform = types.SimpleNamespace(is_cpu=lambda: is_cpu)
        monkeypatch.setitem(sys.modules, "vllm", vllm)
        monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
        return runtime.start(str(path), separate=True, gpu_memory_utilization=0.7, **settings)

    return start


def test_the_memory_share_is_passed_on_if_no_cache_size_is_given(started):
    llm = started()
    assert llm.settings["gpu_memory_utilization"] == 0.7
    assert "kv_cache_memory_bytes" not in llm.settings
    assert llm.cpu_cache == "1"


def test_a_cache_size_replaces_the_memory_share_on_a_gpu(started):
    llm = started(cache_gb=4)
    assert llm.settings["kv_cache_memory_bytes"] == 4 * 2**30
    assert llm.settings["gpu_memory_utilization"] < 0.05, "others may hold nearly all of the card"


def test_graph_sizes_are_set_only_on_a_gpu_without_eager_mode(started):
    sizes = started().settings["compilation_config"]["cudagraph_capture_sizes"]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, 2048)
    assert "compilation_config" not in started(enforce_eager=True).settings
    assert "compilation_config" not in started(is_cpu=True).settings


def test_on_a_cpu_the_cache_size_is_an_environment_variable(started):
    llm = started(is_cpu=True, cache_gb=3)
    assert llm.cpu_cache == "3"
    assert "kv_cache_memory_bytes" not in llm.settings


def test_a_model_of_the_same_shape_has_the_same_name_in_the_next_run(started, tmp_path):
    for name, shape in (("first", "{}"), ("second", "{}"), ("other", '{"layers": 2}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(shape)
    first, second, other = (started(tmp_path / name) for name in ("first", "second", "other"))
    assert first.path == second.path != other.path
    assert (first.lies_in, second.lies_in) == (str(tmp_path / "first"), str(tmp_path / "second"))
    assert started("a-hub/model").path == "a-hub/model"
    with open(f"{first.path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beside = started(tmp_path / "first")
        assert beside.path not in (first.path, str(tmp_path / "first")), "it has a link of its own"
        assert os.path.realpath(beside.path) == str((tmp_path / "first").resolve())

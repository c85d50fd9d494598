"""``parallel``: processes that nobody started are an error, and they wait as long as is said."""

from datetime import timedelta

import pytest
import torch.distributed as dist

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed import ranks
from llm_gym_agents.distributed.place import Place


def parallel(**settings):
    config = ConfigStore()
    config.update({"parallel": settings})
    return config


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_processes_that_nobody_started_are_an_error(mode, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match=f"parallel.mode='{mode}' needs one process for each GPU"):
        Place.of(parallel(mode=mode))
    assert Place.of(parallel()).ranks.world == 1


def test_processes_wait_for_one_another_as_long_as_the_config_says(monkeypatch):
    told = {}

    class Joined(Exception):
        pass

    def init(backend, *, timeout):
        told.update(backend=backend, timeout=timeout)
        raise Joined

    monkeypatch.setattr(dist, "init_process_group", init)
    monkeypatch.setattr(ranks.torch.cuda, "is_available", lambda: False)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.setenv(name, "0")
    with pytest.raises(Joined):
        Place.of(parallel(mode="fsdp", timeout=7.5))
    assert told == {"backend": "gloo", "timeout": timedelta(seconds=7.5)}


def test_waiting_has_no_effect_in_one_process():
    said = "parallel.timeout=7.5 has no effect with parallel.mode='none'"
    assert parallel(timeout=7.5).without_effect() == [said]
    assert parallel(timeout=7.5, mode="ddp").without_effect() == []

"""``parallel``: processes that nobody started are an error."""

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.launch import rank_context


def parallel(**settings):
    config = ConfigStore()
    config.update({"parallel": settings})
    return config


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_processes_that_nobody_started_are_an_error(mode, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match=f"parallel.mode='{mode}' needs one process for each GPU"):
        rank_context(parallel(mode=mode))
    assert rank_context(parallel()).ranks.world == 1

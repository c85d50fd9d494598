"""Every setting of ``ray`` has an effect; those that need a cluster show it in ``on_ray``."""

import ast
from pathlib import Path

import pytest

from llm_gym.core.errors import MissingExtraError
from llm_gym_agents.distributed.ray.sampler import RaySampler
from llm_gym_agents.rollouts.sampler import Sampler
from tests.agents.config.config_values import SETTINGS
from tests.agents.distributed.echo_run import echo_trainer

HERE = "agents/config/test_ray_settings.py"
AHEAD = "agents/distributed/test_ahead.py"
CLUSTER = "agents/distributed/on_ray/test_cluster.py"
FAULTS = "agents/distributed/on_ray/test_faults.py"
SHOWN = {
    "use_ray": (HERE, "test_actors_play_instead_of_one_sampler"),
    "num_actors": (HERE, "test_actors_play_instead_of_one_sampler"),
    "address": (CLUSTER, "test_an_address_leads_to_the_cluster_that_is_there"),
    "num_gpus_per_actor": (CLUSTER, "test_what_the_cluster_could_never_give_is_refused"),
    "staleness": (AHEAD, "test_playing_runs_ahead_by_as_much_as_it_may"),
    "timeout": (FAULTS, "test_an_environment_that_hangs_is_cut_at_its_deadline"),
}


def test_every_setting_of_ray_is_shown_to_have_an_effect():
    known = {name for section, name in SETTINGS if section == "ray"}
    assert SHOWN.keys() == known, "give a new setting an entry in SHOWN"
    root = Path(__file__).parents[2]
    for file, test in SHOWN.values():
        tree = ast.parse((root / file).read_text())
        assert test in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_actors_play_instead_of_one_sampler(tmp_path):
    plain = echo_trainer(tmp_path / "plain")
    group = echo_trainer(tmp_path / "group", in_process=True, num_actors=2)
    assert isinstance(plain.sampler, Sampler)
    assert isinstance(group.sampler, RaySampler)
    assert len(group.sampler.pool.actors) == 2
    plain.cleanup()
    group.cleanup()


def test_without_ray_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[ray\]"):
        echo_trainer(tmp_path, num_actors=2)

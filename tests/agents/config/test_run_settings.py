"""What surrounds the update: environments, rewards, imitation beforehand, the folder of the run."""

import json
import sys

import pytest

from llm_gym.core.errors import ConfigError, MissingExtraError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym.core.outcome import StopReason
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn import warm_start
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.build import join_processes
from tests.agents.config.effect_run import ECHO, WARM, configured, play, settings
from tests.agents.odd import Sleeping
from tests.agents.players import player_at_chance
from tests.agents.small_run import config_with
from tests.agents.trainer.processes.echo_run import echo_trainer


def test_a_base_environment_reads_its_limit_in_the_config(tmp_path):
    config = configured({"environment.max_steps": 3}, tmp_path)
    assert SimpleGameEnvironment(config.environment).max_steps == 3
    pool = build.build_pool(config, SimpleGameEnvironment, rows=1)
    assert pool._rows.envs[0].unwrapped.environment.max_steps == 3


def test_a_worker_that_exceeds_the_timeout_is_given_up(tmp_path):
    given = settings(environment__workers=1, environment__timeout=1.5)
    pool = build.build_pool(configured(given, tmp_path), Sleeping, rows=1)
    try:
        lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
        config = configured({}, tmp_path)
        policy = build.build_policy(config, build.build_engine(config, lm, tokenizer), tokenizer)
        episodes = EpisodeCollector(pool, policy).collect([EpisodeTask(0, 0)]).all_episodes
    finally:
        pool.close()
    assert [episode.stop_reason for episode in episodes] == [StopReason.ERROR]
    with pytest.raises(ConfigError, match="timeout"):
        configured(settings(environment__timeout=0.5), tmp_path).check()


def test_a_file_of_conversations_is_imitated(tmp_path):
    losses = []
    for word in ("red", "blue"):
        talk = [{"role": "user", "content": "Say red."}, {"role": "assistant", "content": word}]
        (tmp_path / f"{word}.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
        given = WARM | settings(
            warm_start__player=str(tmp_path / f"{word}.jsonl"),
            training__num_iters_per_epoch=1,
        )
        losses.append(play(given, tmp_path / word).metrics[0]["warm_start/loss"])
    assert losses[0] != losses[1]
    for wrong in ("file", "solvr", str(tmp_path / "missing.jsonl")):
        with pytest.raises(ConfigError, match=r"warm_start\.player"):
            play({"warm_start.player": wrong}, tmp_path / "none")


@pytest.mark.parametrize(("temperature", "rounds"), [(20.0, 2), (0.01, 1)])
def test_unusable_replies_lead_to_more_warm_start_rounds(
    temperature, rounds, tmp_path, monkeypatch
):
    monkeypatch.setattr(warm_start, "HELPED", 9.9)  # hot as it is, two steps hardly help
    given = WARM | settings(warm_start__rounds=2, inference__temperature=temperature,
                             training__num_iters_per_epoch=1)  # fmt: skip
    row = play(given, tmp_path).metrics[0]
    assert (row["warm_start/invalid"] > warm_start.UNUSABLE) == (rounds > 1)
    assert row["warm_start/steps"] == 2 * rounds
    assert row["warm_start/turns"] == 16 * rounds


def test_after_a_solver_the_critic_learns_first(tmp_path):
    given = WARM | settings(warm_start__player="solver", training__num_iters_per_epoch=4)
    first, second, *_ = play(given, tmp_path).metrics
    assert "train/critic_only" in first
    assert abs(first["policy/kl"]) < 1e-7
    assert "train/critic_only" not in second


def test_a_tracker_that_is_not_installed_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"checkpoint\.tracker"):
        play({"checkpoint.tracker": "wandb/mine"}, tmp_path)


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_a_parallel_mode_without_started_processes_is_an_error(mode, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match=f"parallel.mode='{mode}'"):
        join_processes(config_with(parallel__mode=mode))
    assert join_processes(ConfigStore()).world == 1


def test_without_ray_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[ray\]"):
        echo_trainer(tmp_path, num_actors=2)

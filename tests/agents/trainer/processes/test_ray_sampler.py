"""A group of actors plays like one process: same batch, same numbers."""

import pytest
import torch

from llm_gym_agents.config import RayConfig
from llm_gym_agents.engines.base import EngineError, StaleWeightsError
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.trainer.ray import actor_pool
from llm_gym_agents.trainer.ray.actor_pool import gpu_assignment
from tests.agents.config.effect_run import ECHO
from tests.agents.trainer.processes.echo_run import echo_rows, echo_trainer

TWICE = {"training.num_iters_per_epoch": 2}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The rows of one process without a group."""
    return echo_rows(tmp_path_factory.mktemp("alone"), TWICE)


@pytest.fixture
def trainer(cleaned, tmp_path):
    return cleaned(echo_trainer(tmp_path, in_process=True, num_actors=3))


@pytest.mark.parametrize("actors", [1, 3])
def test_any_number_of_players_gives_the_numbers_of_one_process(actors, alone, tmp_path):
    assert echo_rows(tmp_path, TWICE, in_process=True, num_actors=actors) == alone
    assert alone[-1]["policy/kl"] != 0.0  # it learned something, so there was something to differ


def test_without_isolated_batches_one_actor_is_exact_and_three_nearly(tmp_path):
    whole = TWICE | {"inference.isolated_batch_size": None}
    alone = echo_rows(tmp_path / "alone", whole)
    assert echo_rows(tmp_path / "one", whole, in_process=True) == alone
    three = echo_rows(tmp_path / "three", whole, in_process=True, num_actors=3)
    for ours, theirs in zip(three, alone, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)


MIX = TWICE | {
    "environment.mix": {ECHO: 1, "llm_gym/Count-v0": 2},
    "environment.env_kwargs": {"rules": "system", ECHO: {"words": 4, "max_turns": 2}},
    "environment.mix_by": "signal",
}


def test_actors_play_a_mix_as_one_process_does_and_ahead_of_it(tmp_path):
    alone = echo_rows(tmp_path / "alone", MIX)
    assert echo_rows(tmp_path / "two", MIX, in_process=True, num_actors=2) == alone
    assert alone[0]["env/llm_gym/Count-v0/share"] == pytest.approx(2 / 3)
    ahead = echo_rows(tmp_path / "ahead", MIX, in_process=True, num_actors=2, staleness=1)
    shares = [name for name in ahead[-1] if name.startswith("env/") and name.endswith("/share")]
    assert sum(ahead[-1][name] for name in shares) == pytest.approx(1.0)


def test_weights_travel_in_buckets_each_of_which_is_stored_once(trainer, monkeypatch):
    sampler = trainer.sampler
    sizes = []

    def put(bucket):
        sizes.append(sum(spot.end - spot.begin for spot in bucket.spots))
        return bucket

    sampler.pool.cluster.put = put
    monkeypatch.setattr(actor_pool, "BUCKET_BYTES", 2048)
    sampler.push(1)
    whole = sum(weight.nbytes for weight in trainer.learner.lm.parameters())
    largest = max(weight.nbytes for weight in trainer.learner.lm.parameters())
    assert sum(sizes) == whole  # each byte travels once, for all actors
    assert sampler.pool.transport.buckets == len(sizes) > 2
    assert max(sizes) <= max(2048, largest)


def test_an_actor_that_missed_a_weight_is_named_and_nothing_is_played(trainer):
    engine = trainer.sampler.pool.actors[1].actor.sampler.engine
    finish = engine.finish_loading

    def forgetful(version):
        finish(version)
        with torch.no_grad():
            next(iter(engine.model.parameters()))[0, 0] += 1e-6

    engine.finish_loading = forgetful
    with pytest.raises(StaleWeightsError, match="sampler 1"):
        trainer.publisher.publish(1)


def test_other_weight_versions_and_missing_episodes_are_errors(trainer):
    assert len(trainer.sampler.play([EpisodeTask(5, 1)]).episodes) == 1
    assert trainer.sampler.play([]).episodes == []
    with pytest.raises(EngineError, match="version 3"):
        trainer.sampler.play([EpisodeTask(0, 0)], 3)
    host = trainer.sampler.pool.actors[0].actor
    play = host.play
    host.play = lambda tasks, *how: play(tasks[:-1], *how)
    with pytest.raises(EngineError, match="6 episodes"):
        trainer.sampler.play([EpisodeTask(id, id) for id in range(6)])


def test_a_model_with_adapters_is_served_merged(cleaned, tmp_path):
    given = {"model.lora_rank": 2, "training.num_iters_per_epoch": 1}
    trainer = cleaned(echo_trainer(tmp_path, given, in_process=True))
    trainer.fit()
    engine = trainer.sampler.pool.actors[0].actor.sampler.engine
    assert not any("lora" in name for name, _ in engine.model.named_parameters())


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def gpus(device="cuda", learners=0, **ray):
    return gpu_assignment(RayConfig(use_ray=True, **ray), torch.device(device), learners)


@pytest.mark.parametrize(
    ("given", "cards"),
    [
        ({"num_actors": 3}, ["1", "2", "3"]),
        ({"device": "cuda:2", "num_actors": 3}, ["0", "1", "3"]),
        ({"num_actors": 1, "num_gpus_per_actor": 2.0}, ["1", "2", "3"]),
        ({"num_actors": 4}, None),  # all of them, and the learner shares
        ({"learners": 2, "num_actors": 2}, ["2", "3"]),
        ({"learners": 2, "num_actors": 3}, None),
        ({"num_actors": 2, "num_gpus_per_actor": 0.3}, None),
        ({"num_actors": 2, "address": "auto"}, None),
        ({"device": "cpu", "num_actors": 2}, None),
    ],
)
def test_learners_keep_their_gpus_where_enough_are_left(four_gpus, given, cards):
    assert gpus(**given) == cards
    four_gpus.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    assert gpus(num_actors=2) == ["5", "7"], "by the names that this process sees"

"""Training through an engine with a model of its own: pushed, probed, resumed.

The server is the stand-in for SGLang, which computes with the weights that it is pointed to.
"""

import pytest
import torch

from llm_gym_agents.engines.publish import PROBE_GAP
from llm_gym_agents.engines.weight_check import StaleWeightsError
from tests.agents.config.effect_run import ECHO, play, settings
from tests.agents.engines.sglang.stand_in import StandIn, TinySampler
from tests.agents.players import player_at_chance


@pytest.fixture
def server(tmp_path):
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2)
    lm.save_pretrained(tmp_path / "served")
    server = StandIn(TinySampler(str(tmp_path / "served")))
    yield server
    server.close()


def through(server, **more):
    given = settings(inference__backend="sglang", inference__engine={"url": server.url})
    return given | settings(**more)


def test_two_iterations_train_through_a_server(server, tmp_path):
    out = play(through(server), tmp_path / "run")
    assert len(out.metrics) == 2
    assert all(0 <= row[PROBE_GAP] < 1e-4 for row in out.metrics)
    pushed = {f"lm.{name}": weight for name, weight in server.sampler.model.state_dict().items()}
    for name, weight in pushed.items():
        assert weight.equal(out.weights[name]), name
    # What was sampled is what the trainer scores, to the last bits.
    assert all(row["mismatch/log_prob_max"] < 1e-4 for row in out.metrics)
    paths = [path for path, _ in server.requests]
    pushes = [at for at, path in enumerate(paths) if path == "/update_weights_from_disk"]
    assert len(pushes) == 3, "at first, and after each step"
    for at, until in zip(pushes, [*pushes[1:], len(paths)], strict=True):
        assert paths[at + 1] == "/flush_cache"
        assert "/generate" in paths[at + 2 : until]


@pytest.mark.slow  # training through it, and a push that gets lost, are not
def test_a_run_goes_on_with_the_weights_of_its_checkpoint(server, tmp_path):
    given = through(server, checkpoint__save_interval=1)
    first = play(given, tmp_path / "run")
    for weight in server.sampler.model.parameters():
        torch.nn.init.normal_(weight)
    longer = given | settings(checkpoint__resume=True, training__num_iters_per_epoch=3)
    second = play(longer, tmp_path / "run")
    assert [row[PROBE_GAP] for row in second.metrics[:2]] == [
        row[PROBE_GAP] for row in first.metrics
    ]
    assert second.metrics[2]["mismatch/log_prob_max"] < 1e-4, "sampled with what was trained"


def test_a_push_that_gets_lost_ends_the_run(server, tmp_path):
    sampler, pushes = server.sampler, []
    load = sampler.load

    def only_the_first(folder):
        pushes.append(folder)
        if len(pushes) == 1:
            load(folder)

    sampler.load = only_the_first
    given = through(server, training__learning_rate=0.05)
    with pytest.raises(StaleWeightsError, match=r"version [12]"):
        play(given, tmp_path / "run")


def test_adapters_train_through_a_server(server, tmp_path):
    pytest.importorskip("peft")
    out = play(through(server, model__lora_rank=2), tmp_path / "run")
    assert any("lora_" in name for name in out.weights)
    assert all(row[PROBE_GAP] < 1e-4 for row in out.metrics)

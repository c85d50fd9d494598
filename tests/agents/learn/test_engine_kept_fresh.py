"""An update that is broken off leaves neither a sleeping engine nor an old one."""

import pytest
import torch

from llm_gym_agents import PPOTrainer
from llm_gym_agents.distributed import build
from llm_gym_agents.engines.base import Request
from tests.agents.scripted import ScriptedEngine
from tests.agents.small_run import Odd, small


@pytest.fixture
def run(tmp_path):
    made = PPOTrainer(small(tmp_path), Odd)
    yield made
    made.cleanup()


def noted(engine, monkeypatch):
    """Return a list that grows with what the engine is asked."""
    asked = []

    def noting(name, usual):
        return lambda *args: (asked.append(name), usual(*args))[1]

    for name in ("sleep", "wake", "update_weights", "submit"):
        monkeypatch.setattr(engine, name, noting(name, getattr(engine, name)))
    return asked


def interrupt_updates(run, monkeypatch):
    """Let updates change the weights and then be interrupted."""

    def update(*args, **kwargs):
        with torch.no_grad():
            for weight in run.learner.lm.parameters():
                weight.mul_(1.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(run.learner.ppo, "update", update)


@pytest.mark.parametrize("go_on", [PPOTrainer.evaluate, PPOTrainer.fit])
def test_the_engine_is_woken_and_given_the_weights_before_it_plays_again(run, monkeypatch, go_on):
    update = run.learner.ppo.update
    asked = noted(run.sampler.engine, monkeypatch)
    interrupt_updates(run, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert asked[-1] == "sleep"
    asked.clear()
    monkeypatch.setattr(run.learner.ppo, "update", update)
    go_on(run)
    assert asked[:3] == ["wake", "update_weights", "submit"]


def test_nothing_of_the_old_weights_is_left_in_its_cache(run, monkeypatch):
    prompt = list(range(1, 40))
    run.sampler.engine.generate([Request(prompt)])
    interrupt_updates(run, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    run.publisher.publish_if_outdated()
    [reply] = run.sampler.engine.generate([Request(prompt)])
    scored = run.sampler.engine.score([[*prompt, *reply.ids]])[0][len(prompt) - 1 :]
    assert reply.log_probs == pytest.approx(scored, abs=1e-4)


def test_weights_that_are_published_are_not_published_again(run, monkeypatch):
    asked = noted(run.sampler.engine, monkeypatch)
    run.fit()
    assert asked.count("update_weights") == 1
    run.publisher.publish_if_outdated()
    assert asked.count("update_weights") == 1


def test_a_trainer_that_cannot_be_built_ends_its_engine(tmp_path, monkeypatch):
    engine = ScriptedEngine()
    engine.shares_model = True
    monkeypatch.setattr(build, "build_engine", lambda *args: engine)
    monkeypatch.setattr(build, "build_pool", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        PPOTrainer(small(tmp_path), Odd)
    assert engine.closed


def test_environments_that_cannot_be_closed_do_not_keep_the_engine(run, monkeypatch):
    closed = []
    with monkeypatch.context() as patched:
        patched.setattr(run.sampler.collector, "close", lambda: 1 / 0)
        patched.setattr(run.sampler.engine, "close", lambda: closed.append(True))
        with pytest.raises(ZeroDivisionError):
            run.cleanup()
    assert closed == [True]

"""``Learner`` goes on from its state to the same bits; its reference; what it serves."""

import copy
import pickle
import weakref

import pytest
import torch

from llm_gym_agents import PPOTrainer
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner, most_tokens
from llm_gym_agents.model.weights import served_weights
from llm_gym_agents.run.state import CheckpointError
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.build import prepare_lm
from tests.agents.checks import copied, same
from tests.agents.learn.test_ppo import data, training
from tests.agents.model.test_policy_value import batch, one_by_one
from tests.agents.scripted import ScriptedEngine
from tests.agents.small_run import Odd, config_with, small, untimed
from tests.agents.tiny import tiny_model

GUARDS = {"max_kl": 1e-3, "normalise_values": True, "mask_truncated_replies": True}


@pytest.mark.parametrize("settings", [{}, {"kl": "reward"}, GUARDS])
def test_a_learner_resumes_from_its_state_to_the_same_bits(settings):
    torch.manual_seed(0)
    one = Learner(tiny_model(), training(learning_rate=1e-2, **settings))
    one.ppo.update(data(0))
    state = pickle.loads(pickle.dumps(one.state()))
    found = {}
    other = Learner(copy.deepcopy(one.lm), training(learning_rate=1e-2, **settings))
    other.load_state(state)
    for learner in (one, other):
        torch.manual_seed(7)  # generators are the run's, and deal the mini-batches
        found[learner] = learner.ppo.update(data(1))
    ours, theirs = untimed([found[one], found[other]])
    assert ours == theirs
    assert same(one.model.state_dict(), other.model.state_dict())
    kept = [each.state().get("stabilizers") for each in (one, other)]
    assert kept[0] is None or kept[0].values == kept[1].values
    if settings is GUARDS:
        assert kept[0].values["value_scale"]["batches"] == 2


def test_a_state_without_the_reference_is_refused_before_anything_changes():
    one = Learner(tiny_model(), training(learning_rate=1e-2))
    one.ppo.update(data())
    other = Learner(tiny_model(seed=1), training(kl="loss"))
    before = copied(other.model)
    with pytest.raises(CheckpointError, match="reference"):
        other.load_state(one.state())
    assert same(before, other.model.state_dict())


def test_the_longest_episode_is_known_where_the_aggregation_divides_by_it():
    inference = config_with(inference__max_tokens=7, inference__max_turns=3).inference
    assert most_tokens(training(loss_agg="seq-mean-token-sum-norm"), inference) == 21
    assert most_tokens(training(), inference) is None


def with_reference(**model):
    pytest.importorskip("peft")
    made = ConfigStore()
    made.training = training(kl="loss", kl_coef=0.1, learning_rate=1e-2)
    for name, value in model.items():
        setattr(made.model, name, value)
    lm = tiny_model()
    return copy.deepcopy(lm), Learner(prepare_lm(made.model, lm), made.training, made.model)


def test_with_adapters_the_reference_is_the_base_without_a_copy():
    _, copied = with_reference()
    assert "reference" in copied.state()
    assert not any(weight.requires_grad for weight in copied.reference.parameters())
    base, made = with_reference(lora_rank=2)
    assert made.reference is None
    assert "reference" not in made.state()
    first = made.ppo.update(data())
    assert first["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    made.ppo.update(data())
    reference = made.ppo.reference(*batch(), entropy="none").log_prob_T
    with torch.no_grad():
        wanted, _ = one_by_one(base, *batch()[:2])
    torch.testing.assert_close(reference, wanted, atol=1e-5, rtol=1e-5)
    own = made.model(*batch()).log_prob_T
    assert (own - reference).abs().max() > 1e-3, "adapters are on again"
    trained = [weight for name, weight in made.lm.named_parameters() if "lora_" in name]
    assert all(weight.requires_grad for weight in trained)


def test_after_imitation_the_reference_is_the_imitating_model():
    _, made = with_reference(lora_rank=2)
    before = made.state()
    with torch.no_grad():  # as imitation does
        for name, weight in made.lm.named_parameters():
            if "lora_" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    taught = made.model(*batch()).log_prob_T.detach()
    made.start_from_here()
    assert made.ppo.update(data())["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    made.ppo.update(data())
    reference = made.ppo.reference(*batch(), entropy="none").log_prob_T
    torch.testing.assert_close(reference, taught)
    assert (made.model(*batch()).log_prob_T - reference).abs().max() > 1e-4, "its own are back"
    _, other = with_reference(lora_rank=2)  # a resumed run has the same reference
    other.load_state(made.state())
    for name, weight in made.reference_adapters.items():
        torch.testing.assert_close(other.reference_adapters[name], weight)
    assert other.like("reference/" + name).shape == weight.shape
    made.load_state(before)  # as after an imitation that was no gain
    assert made.reference_adapters == {}


def test_merged_weights_are_published_one_at_a_time():
    _, made = with_reference(lora_rank=2)
    held, most = [], 0
    for name, tensor in served_weights(made.lm):
        held = [each for each in held if each() is not None]
        own = dict(made.lm.named_parameters())
        if not any(tensor.data_ptr() == weight.data_ptr() for weight in own.values()):
            held.append(weakref.ref(tensor))
        most = max(most, len(held))
        del tensor, name
    assert most <= 2, "a second model must never exist"


@pytest.fixture
def run(train, tmp_path):
    return train(small(tmp_path), Odd)


def count_calls(engine, monkeypatch):
    """Return a list that grows with the engine's calls."""
    calls = []

    def noting(name, usual):
        return lambda *args: (calls.append(name), usual(*args))[1]

    for name in ("sleep", "wake", "update_weights", "submit"):
        monkeypatch.setattr(engine, name, noting(name, getattr(engine, name)))
    return calls


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
    calls = count_calls(run.sampler.engine, monkeypatch)
    interrupt_updates(run, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert calls[-1] == "sleep"
    calls.clear()
    monkeypatch.setattr(run.learner.ppo, "update", update)
    go_on(run)
    assert calls[:3] == ["wake", "update_weights", "submit"]
    calls.clear()
    run.publisher.publish_if_outdated()
    assert calls == [], "what is published is not published again"


def test_a_trainer_that_cannot_be_built_closes_its_engine(tmp_path, monkeypatch):
    engine = ScriptedEngine()
    engine.shares_model = True
    monkeypatch.setattr(build, "build_engine", lambda *args: engine)
    monkeypatch.setattr(build, "build_pool", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        PPOTrainer(small(tmp_path), Odd)
    assert engine.closed


def test_the_engine_is_closed_even_if_environments_cannot_be(run, monkeypatch):
    closed = []
    with monkeypatch.context() as patched:
        patched.setattr(run.sampler.collector, "close", lambda: 1 / 0)
        patched.setattr(run.sampler.engine, "close", lambda: closed.append(True))
        with pytest.raises(ZeroDivisionError):
            run.cleanup()
    assert closed == [True]

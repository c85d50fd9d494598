"""``Learner``: from a config and a model; goes on from its state to the same bits."""

import copy
import pickle

import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner, max_episode_tokens
from llm_gym_agents.run.state import CheckpointError
from tests.agents.learn.test_ppo import data
from tests.agents.tiny import tiny_model


def config(**training):
    made = ConfigStore()
    made.update({"training": {"batch_size": 4, "mini_batch_size": 4, "ppo_epochs": 1} | training})
    return made


def weights(learner):
    return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}


@pytest.mark.parametrize("kl", [{}, {"kl": "reward"}])
def test_another_learner_goes_on_from_the_state_to_the_same_bits(kl):
    torch.manual_seed(0)
    one = Learner.from_config(config(learning_rate=1e-2, **kl), tiny_model())
    one.ppo.update(data(0))
    state = pickle.loads(pickle.dumps(one.state()))
    lm = copy.deepcopy(one.lm)
    found = {}
    other = Learner.from_config(config(learning_rate=1e-2, **kl), lm)
    other.load_state(state)
    for learner in (one, other):
        torch.manual_seed(7)  # generators are the run's, and deal the mini-batches
        found[learner] = learner.ppo.update(data(1))
    ours, theirs = (
        {name: value for name, value in found[each].items() if not name.startswith("time/")}
        for each in (one, other)
    )
    assert ours == theirs
    assert all(tensor.equal(weights(other)[name]) for name, tensor in weights(one).items())


def test_a_state_without_the_reference_is_refused_before_anything_changes():
    one = Learner.from_config(config(learning_rate=1e-2), tiny_model())
    one.ppo.update(data())
    other = Learner.from_config(config(kl="loss"), tiny_model(seed=1))
    before = weights(other)
    with pytest.raises(CheckpointError, match="needs a checkpoint that has one"):
        other.load_state(one.state())
    assert all(tensor.equal(before[name]) for name, tensor in weights(other).items())


def test_weights_are_those_that_were_just_learned_under_names_that_engines_know():
    learner = Learner.from_config(config(learning_rate=1e-2), tiny_model())
    before = {name: tensor.clone() for name, tensor in learner.weights()}
    learner.ppo.update(data())
    after = dict(learner.weights())
    assert after.keys() == dict(learner.lm.named_parameters()).keys()
    assert any(not after[name].equal(before[name]) for name in before)


def test_greedy_scores_may_come_from_anywhere():
    learner = Learner.from_config(config(adv_estimator="remax", group_size=1), tiny_model())
    assert learner.model.value_head is None
    scores_E = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert learner.ppo.update(data(), greedy_scores_E=scores_E)["train/steps"] == 1


def test_the_longest_episode_is_known_where_the_aggregation_divides_by_it():
    made = config(loss_agg="seq-mean-token-sum-norm")
    made.update({"inference": {"max_tokens": 7, "max_turns": 3}})
    assert max_episode_tokens(made) == 21
    assert max_episode_tokens(config()) is None

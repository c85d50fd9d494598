"""Learning from some turns of each episode: the gradient of all on average, and fewer reads."""

import copy
import itertools

import pytest
import torch

from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pack import Packer, draw_turns
from tests.agents.learn.test_ppo import data, gradients, make, training
from tests.agents.tiny import tiny_model

FIRST = ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1))
DRAWS = [torch.tensor([[at, 1 - at] for at in draw]).float() for draw in FIRST]
"""Each turn of each of four episodes is drawn as often as the other, together and crosswise."""
ALONE = {"adv_estimator": "reinforce_plus_plus"}
HOW = {
    "critic": {},
    "critic, normalised": {"normalise_values": True, "loss_agg": "seq-mean-token-mean"},
    "no critic": ALONE,
    "scored before": ALONE | {"ppo_epochs": 2, "loss_agg": "seq-mean-token-sum"},
}


def model_for(how):
    torch.manual_seed(0)
    alone = "adv_estimator" in how
    model = PolicyValueModel(tiny_model(), critic="none" if alone else "shared")
    if not alone:
        torch.nn.init.normal_(model.value_head.weight, std=0.1)
    return model


@pytest.mark.parametrize(("name", "history"), [*zip(HOW, [True, False, False, True], strict=True)])
def test_the_mean_gradient_over_draws_is_that_of_all_turns(name, history, monkeypatch):
    how, batch = HOW[name] | {"max_grad_norm": 1e9}, data(history=history)
    model = model_for(how)
    whole = gradients(make(copy.deepcopy(model), **how), batch)
    found = []
    for draw in DRAWS:
        with monkeypatch.context() as patch:
            patch.setattr(torch, "rand", lambda count, draw=draw: draw.view(-1))
            found.append(gradients(make(copy.deepcopy(model), max_learned_turns=1, **how), batch))
    assert any(not found[0][each].allclose(found[-1][each]) for each in whole)
    for each, gradient in whole.items():
        mean = torch.stack([one[each] for one in found]).mean(0)
        torch.testing.assert_close(mean, gradient, atol=2e-6, rtol=2e-4)


def test_a_drawn_turn_is_weighted_for_the_turns_left_out():
    """Five turns of which two are drawn, and one turn: over all orders each token counts 1."""
    batch = five_turns()
    orders = list(itertools.permutations(range(5)))
    total = torch.zeros(batch.tokens)
    for order in orders:
        drawn = draw_turns(batch, 2, torch.tensor([*order, 0]) / 10)
        total[drawn.index_T] += drawn.weight_T
        assert drawn.data.lengths_E.tolist() == [4, 2]
        assert drawn.data.sequences_E.tolist() == [2, 1], "sequences without a turn are not read"
        (pack,) = Packer(drawn.data).within([0, 1], 1000)
        assert pack.token_T.equal(batch.token_T[drawn.index_T])
    torch.testing.assert_close(total / len(orders), torch.ones(batch.tokens))
    assert draw_turns(batch, 5, torch.zeros(6)) is None


def five_turns():
    """An episode of five turns and one of a single turn, 3 ids read and 2 sampled in each."""
    batch = data(terminated=(True,) * 3, history=False)
    position_T = torch.tensor([[at, at + 1] for at in range(2, 30, 5)]).view(-1)
    batch.ids_S = torch.arange(30)
    batch.sequence_lengths_Q = torch.full((6,), 5)
    batch.position_T, batch.token_T = position_T, position_T + 1
    batch.sampler_log_prob_T, batch.reward_T = -torch.rand(12), torch.zeros(12)
    batch.version_T = torch.zeros(12, dtype=torch.int64)
    batch.turn_ends_T = torch.tensor([False, True] * 6)
    batch.lengths_E, batch.sequences_E = torch.tensor([10, 2]), torch.tensor([5, 1])
    batch.terminated_E = torch.ones(2, dtype=torch.bool)
    batch.bootstrap_E = torch.full((2,), -1)
    batch.group_E = batch.episode_E = torch.arange(2)
    batch.reward_T[[9, 11]] = torch.tensor([1.0, 0.0])
    return batch


@pytest.mark.parametrize(("critic", "passes"), [("none", 0), ("shared", 1)])
def test_only_drawn_turns_are_read_and_a_critic_scores_all_of_them_once(critic, passes):
    """Three passes without a critic: to score, and two epochs; and one to measure the KL."""
    torch.manual_seed(0)
    model = PolicyValueModel(tiny_model(), critic=critic)
    read = []
    model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].numel()))
    how = {"adv_estimator": "gae" if critic == "shared" else "reinforce_plus_plus"}
    config = training(max_learned_turns=2, ppo_epochs=2, max_kl=1e9, **how)
    config.batch_size = config.mini_batch_size = 2
    PPO(model, config).update(five_turns())
    assert read == ([30] if passes else [15]) + [15, 15, 15]


def test_recording_keeps_every_token_and_changes_no_update():
    found = {}
    for recorded in (True, False):
        model = model_for(ALONE)
        ppo = make(model, max_learned_turns=1, **ALONE)
        torch.manual_seed(1)
        ppo.update(data(history=False), recorded=recorded)
        found[recorded] = ppo
    count = data().tokens
    assert all(len(each) == count for each in found[True].trained.values())
    assert bool((found[True].trained["ratios"] > 0).all())
    weights = (dict(found[each].model.named_parameters()) for each in (True, False))
    for each in zip(*(one.values() for one in weights), strict=True):
        torch.testing.assert_close(*each, atol=1e-6, rtol=1e-5)

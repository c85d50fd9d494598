"""What an update reads and holds: once where once is enough, and nothing afterwards."""

import copy

import pytest
import torch

from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pack import Packer
from tests.agents.learn.test_ppo import check_same, data, gradients, training
from tests.agents.tiny import tiny_model

LONGEST = int(data(history=False).sequence_lengths_Q.max())


def make(lm, **settings):
    model = PolicyValueModel(lm, critic="none")
    return PPO(model, training(adv_estimator="grpo", group_size=2, **settings))


def passes(ppo):
    calls = []
    ppo.model.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    return calls


@pytest.mark.parametrize("policy_loss", ["ppo", "gspo", "cispo"])
@pytest.mark.parametrize("cap", [2.0, None])
def test_a_batch_that_is_read_once_needs_no_scoring_and_has_the_same_gradient(policy_loss, cap):
    lm = tiny_model()
    once = make(copy.deepcopy(lm), policy_loss=policy_loss, importance_cap=cap)
    scored = make(copy.deepcopy(lm), policy_loss=policy_loss, importance_cap=cap)
    scored._is_one_pass = lambda episodes: False
    read, both = passes(once), passes(scored)
    found, expected = gradients(once, data()), gradients(scored, data())
    assert read[0] is True
    assert both[:2] == [False, True]
    assert not any(read[1:] + both[2:]), "only the KL is measured after the step"
    check_same(found, expected)
    assert all(weight.grad is None for weight in once.model.parameters()), "none is held"


def test_a_batch_that_is_read_once_has_the_same_metrics():
    lm = tiny_model()
    once, scored = make(copy.deepcopy(lm)), make(copy.deepcopy(lm))
    scored._is_one_pass = lambda episodes: False
    one, other = once.update(data()), scored.update(data())
    assert one.keys() == other.keys()
    for name, value in other.items():
        if not name.startswith("time/"):
            assert one[name] == pytest.approx(value, abs=1e-5), name
    for name, tensor in scored.trained.items():
        torch.testing.assert_close(once.trained[name], tensor, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"ppo_epochs": 2}, {"mini_batch_size": 2}, {"kl": "reward"}])
def test_settings_that_need_old_log_probs_cause_a_scoring_pass(settings):
    ppo = make(tiny_model(), **settings)
    read = passes(ppo)
    ppo.update(data())
    assert read[0] is False


def test_a_large_critic_gradient_does_not_shrink_the_policy_gradient():
    norms = {}
    for scale in (1.0, 100.0):
        model = PolicyValueModel(tiny_model(), critic="separate")
        ppo, own = PPO(model, training(max_grad_norm=0.05)), data()
        own.reward_T = own.reward_T * scale
        found = gradients(ppo, own)
        policy = [gradient for name, gradient in found.items() if name.startswith("lm.")]
        norms[scale] = float(torch.stack([each.norm() for each in policy]).norm())
    assert norms[100.0] == pytest.approx(norms[1.0], rel=0.05)


# --- packs --------------------------------------------------------------------------------------


def test_packs_are_about_the_same_size():
    packer = Packer(data())
    costs = packer.ids_E.tolist()
    budget = sum(costs) - min(costs) + 1  # greedily: nearly all in the first, one in the second
    sizes = [pack.ids_S.numel() for pack in packer.within(range(4), budget)]
    assert len(sizes) == 2
    assert max(sizes) < budget - min(costs)


def test_groups_stay_whole_where_a_mini_batch_has_room_for_four():
    group_E = torch.tensor([3, 1, 2, 0, 7, 5, 4, 6] * 2)
    for size, whole in ((8, True), (6, False)):
        settings = training(mini_batch_size=size, ppo_epochs=3)
        found = list(PPO(PolicyValueModel(tiny_model()), settings)._mini_batches(group_E))
        steps = len(found) // 3
        for epoch in range(3):
            own = found[epoch * steps :][:steps]
            assert sorted(at for some in own for at in some) == list(range(16))
        torn = [some for some in found if len(set(group_E[some].tolist())) > len(some) // 2]
        assert bool(torn) != whole


def test_bootstrap_values_do_not_depend_on_micro_batches():
    model = PolicyValueModel(tiny_model())
    torch.nn.init.normal_(model.value_head.weight)
    one = PPO(model, training()).scorer.score(Packer(data(history=False)))
    cut = PPO(model, training(micro_batch_tokens=LONGEST))
    other = cut.scorer.score(Packer(data(history=False)))
    torch.testing.assert_close(one.bootstrap_E, other.bootstrap_E)
    torch.testing.assert_close(one.value_T, other.value_T)


@pytest.mark.parametrize(
    ("settings", "history", "budget", "least"),
    [
        ({}, True, 5, 4),  # nothing shares a pack with an episode that is too long
        ({}, False, 5, 4),
        ({"policy_loss": "gspo"}, False, 5, 4),
        ({"loss_agg": "seq-mean-token-mean"}, False, LONGEST, 5),  # more passes than episodes
        ({"loss_agg": "seq-mean-token-mean"}, True, 30, 2),
        ({"loss_agg": "seq-mean-token-sum"}, True, 30, 2),
        ({}, True, 30, 2),
    ],
)
def test_any_micro_batch_size_has_the_same_gradient(settings, history, budget, least):
    """A budget never ends a run after its episodes were played."""
    lm = tiny_model()
    whole = gradients(make(copy.deepcopy(lm), **settings), data(history=history))
    cut = make(copy.deepcopy(lm), micro_batch_tokens=budget, **settings)
    read = passes(cut)
    check_same(gradients(cut, data(history=history)), whole)
    assert len(read) >= least

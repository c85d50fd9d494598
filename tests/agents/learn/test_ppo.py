"""PPO: gradients equal a hand-written loss, any cut gives the same step, faults stop it."""

import copy
import math

import numpy as np
import pytest
import torch

from llm_gym_agents import algo
from llm_gym_agents.algo import Advantages
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.ppo import PPO, policy_settings
from llm_gym_agents.learn.scoring import Scores, critic_metrics, trained_tokens
from llm_gym_agents.learn.stabilizers import signal_share
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData
from tests.agents.checks import first_gradients, same
from tests.agents.tiny import tiny_model


def data(seed=0, terminated=(True, False, True, True), history=True):
    """Four episodes of two turns each, with rewards on the last token of each turn."""
    g = torch.Generator().manual_seed(seed)
    fields = {name: [] for name in ("ids", "sequences", "position", "ends", "reward", "boot")}
    lengths, per_episode = [], []
    for over in terminated:
        tokens, count = 0, 0
        for turn in range(2):
            prompt = torch.randint(256, (int(torch.randint(3, 9, (1,), generator=g)),), generator=g)
            reply = torch.randint(256, (int(torch.randint(1, 5, (1,), generator=g)),), generator=g)
            first = len(fields["ids"]) + len(prompt) - 1
            fields["position"] += range(first, first + len(reply))
            fields["ids"] += [*prompt.tolist(), *reply.tolist()]
            if history and turn:
                fields["sequences"][-1] += len(prompt) + len(reply)
            else:
                fields["sequences"].append(len(prompt) + len(reply))
                count += 1
            fields["ends"] += [False] * (len(reply) - 1) + [True]
            fields["reward"] += [0.0] * (len(reply) - 1) + [float(torch.rand(1, generator=g))]
            tokens += len(reply)
        if not over:
            fields["ids"] += [7, 8, 9]
            if history:
                fields["sequences"][-1] += 3
            else:
                fields["sequences"].append(3)
                count += 1
        fields["boot"].append(NO_POSITION if over else len(fields["ids"]) - 1)
        lengths.append(tokens)
        per_episode.append(count)
    ids, position = torch.tensor(fields["ids"]), torch.tensor(fields["position"])
    log_prob = -torch.rand(len(position), generator=g)
    return RolloutData(
        ids_S=ids,
        sequence_lengths_Q=torch.tensor(fields["sequences"]),
        position_T=position,
        token_T=ids[position + 1],
        sampler_log_prob_T=log_prob,
        version_T=torch.zeros(len(position), dtype=torch.int64),
        turn_ends_T=torch.tensor(fields["ends"]),
        reward_T=torch.tensor(fields["reward"]),
        lengths_E=torch.tensor(lengths),
        sequences_E=torch.tensor(per_episode),
        terminated_E=torch.tensor(terminated),
        bootstrap_E=torch.tensor(fields["boot"]),
        group_E=torch.tensor([0, 0, 1, 1]),
        episode_E=torch.arange(4),
        batch_size=[],
    )


def training(**settings):
    config = ConfigStore().training
    defaults = {"batch_size": 4, "mini_batch_size": 4, "ppo_epochs": 1, "learning_rate": 1e-3}
    for name, value in (defaults | settings).items():
        setattr(config, name, value)
    return config


def make(model=None, **settings):
    if model is None:
        model = PolicyValueModel(tiny_model())
        torch.nn.init.normal_(model.value_head.weight, std=0.1)
    return PPO(model, training(**settings))


def gradients(ppo, batch):
    """The gradient of the first optimizer step of an update."""
    found = first_gradients(ppo.model, ppo.optimizer)
    ppo.update(batch)
    return found


def check_same(found, expected, rtol=1e-5):
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=rtol, msg=name)


def hand_written(model, batch, gamma=0.9, lam=0.8, clip=0.2, entropy=0.01, value=0.5):
    """PPO with token-level GAE, written out: one loss, one episode at a time, in plain loops.

    The critic counts as far as the returns depend on it, by least squares.
    """
    with torch.no_grad():
        inputs = (batch.ids_S, batch.sequence_lengths_Q, batch.position_T, batch.token_T)
        old = model(*inputs, batch.bootstrap_E[~batch.terminated_E])
        old_value = old.value_T

    def scan(value, after_cut, lam):
        advantages, returns, at, after_cut = [], [], 0, iter(after_cut)
        for e, n in enumerate(batch.lengths_E.tolist()):
            v, r = value[at : at + n], batch.reward_T[at : at + n].tolist()
            after = 0.0 if batch.terminated_E[e] else next(after_cut)
            carry, own = 0.0, []
            for t in reversed(range(n)):
                delta = r[t] + gamma * after - v[t]
                carry = delta + gamma * lam * carry
                own.insert(0, carry)
                after = v[t]
            advantages += own
            returns += [a + x for a, x in zip(own, v, strict=True)]
            at += n
        return advantages, returns

    value_T, cut_B = old_value.tolist(), old.bootstrap_B.tolist()
    whole = scan(value_T, cut_B, 1.0)[1]
    slope, _ = np.polyfit(value_T, whole, 1)
    slope = min(max(slope, 0.0), 1.0)
    shrunk = [
        [np.mean(whole) + slope * (v - np.mean(value_T)) for v in part] for part in (value_T, cut_B)
    ]
    advantages, returns = scan(*shrunk, lam)
    advantage, target = torch.tensor(advantages), torch.tensor(returns)
    advantage = (advantage - advantage.mean()) / (advantage.var() + 1e-8).sqrt()
    new = model(*inputs)
    ratio = (new.log_prob_T - old.log_prob_T).exp()
    weight = (old.log_prob_T - batch.sampler_log_prob_T).exp().clamp(max=2.0)
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    critic = 0.5 * (new.value_T - target) ** 2
    loss = (-surrogate * weight + value * critic - entropy * new.entropy_T).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.lm.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(model.value_head.parameters(), 1.0)
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


SETTINGS = {"gamma": 0.9, "gae_lambda": 0.8, "entropy_coef": 0.01,
            "estimator_settings": {"discount": "token"}}  # fmt: skip


@pytest.mark.parametrize("history", [True, False])
def test_the_gradient_is_that_of_a_hand_written_loss(history):
    batch, ppo = data(history=history), make(**SETTINGS)
    signal, model = signal_share(batch, batch.reward_T), copy.deepcopy(ppo.model)
    model.critic_gradient = min(1.0, max(0.0, 4 * signal - 1))
    expected = hand_written(model, batch, entropy=0.01 * min(1.0, 2 * signal))
    found = gradients(ppo, batch)
    assert found.keys() == expected.keys()
    check_same(found, expected, rtol=1e-4)


@pytest.mark.parametrize("mini_batch_size", [4, 2])
def test_cutting_a_batch_into_micro_batches_changes_no_metric(mini_batch_size):
    """Of a step they are means over its tokens, of an update means over its steps."""
    rows = []
    torch.manual_seed(0)
    model = PolicyValueModel(tiny_model())
    for budget in (16384, 30):
        torch.manual_seed(1)
        ppo = make(
            copy.deepcopy(model), micro_batch_tokens=budget, ppo_epochs=2, kl_coef=0.1,
            mini_batch_size=mini_batch_size, learning_rate=1e-2,
        )  # fmt: skip
        rows.append({name: value for name, value in ppo.update(data()).items() if "_s" not in name})
    whole, cut = rows
    assert whole.keys() == cut.keys()
    assert whole["policy/kl"] > 1e-4
    for name, value in whole.items():
        assert cut[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def broken(**changes):
    batch = data()
    for name, change in changes.items():
        change(getattr(batch, name))
    return batch


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda: broken(reward_T=lambda r: r.fill_(1.0)), "reward"),
        (lambda: broken(token_T=lambda a: a.add_(1)), "position"),
        (lambda: broken(lengths_E=lambda n: n.add_(1)), "add up"),
        (lambda: broken(bootstrap_E=lambda b: b.fill_(-1)), "bootstrap"),
    ],
)
def test_a_batch_that_does_not_fit_together_is_refused(batch, message):
    with pytest.raises(ValueError, match=message):
        make().update(batch())


def test_critic_warm_up_leaves_the_policy_alone_and_a_separate_critic_learns():
    ppo = make(critic_warmup_iters=1)
    before = copy.deepcopy(ppo.model.state_dict())
    assert ppo.update(data(), critic_only=True)["train/critic_only"] == 1.0
    after = ppo.model.state_dict()
    assert all(after[name].equal(before[name]) for name in before if name.startswith("lm."))
    assert not after["value_head.weight"].equal(before["value_head.weight"])
    model = PolicyValueModel(tiny_model(), critic="separate")
    torch.nn.init.normal_(model.value_head.weight, std=0.1)
    critic = copy.deepcopy(model.critic_lm.state_dict())
    make(model).update(data())
    assert not same(model.critic_lm.state_dict(), critic)


def test_a_policy_without_a_critic_skips_the_critic_warm_up():
    lone = PolicyValueModel(tiny_model(), critic="none")
    waits, goes = (make(copy.deepcopy(lone), adv_estimator="grpo") for _ in range(2))
    for ppo, critic_only in ((waits, True), (goes, False)):
        torch.manual_seed(0)  # deals the mini-batches
        ppo.update(data(), critic_only=critic_only)
    assert same(waits.model.state_dict(), goes.model.state_dict())
    assert not same(goes.model.state_dict(), lone.state_dict())


def test_the_rate_scales_the_step():
    model = PolicyValueModel(tiny_model())
    still = make(copy.deepcopy(model))
    still.update(data(), rate=0.0)
    assert same(still.model.state_dict(), model.state_dict())


def test_a_kl_penalty_in_the_reward_pulls_towards_the_reference():
    model = PolicyValueModel(tiny_model())
    other = PolicyValueModel(tiny_model(seed=5), critic="none")
    ppo = PPO(model, training(kl="reward", kl_coef=0.1), other)
    metrics = ppo.update(data())
    assert metrics["kl/reference"] != 0
    assert metrics["kl/coef"] == 0.1
    same = PPO(model, training(kl="loss", kl_coef=0.1), other).update(data())
    assert same["policy/ref_kl"] > 0


def test_a_chosen_clip_range_replaces_that_of_the_loss():
    assert policy_settings(training()) == {}
    assert policy_settings(training(clip_ratio=0.1)) == {"clip_ratio": 0.1}
    higher = training(clip_ratio=0.1, loss_settings={"clip_ratio": [0.2, 0.28]})
    assert policy_settings(higher) == {"clip_ratio": [0.2, 0.28]}


@pytest.mark.parametrize("cap", [1.0, 1.5, None])
def test_mismatch_metrics_use_the_importance_cap(cap):
    batch = data()
    batch.sampler_log_prob_T = batch.sampler_log_prob_T - 3.0
    ppo = PPO(PolicyValueModel(tiny_model()), training(importance_cap=cap, learning_rate=1e-9))
    found = ppo.update(batch)
    old = batch.sampler_log_prob_T + ppo.trained["ratios"].log()
    wanted = algo.mismatch_metrics(old, batch.sampler_log_prob_T, cap=cap)
    for name, value in wanted.items():
        assert found[name] == pytest.approx(float(value), rel=1e-4, abs=1e-5), name
    assert cap is not None or found["mismatch/ess"] == pytest.approx(1.0)
    assert torch.isfinite(ppo.trained["ratios"]).all()


def test_recorded_ratios_compare_trainer_and_sampler():
    batch = data()
    twice = batch.sampler_log_prob_T + math.log(2.0)
    zeros = torch.zeros_like(twice)
    found = trained_tokens(batch, Scores(twice, None, None, None), Advantages(zeros, zeros))
    assert found.keys() == {"ratios", "advantages"}
    torch.testing.assert_close(found["ratios"], torch.full_like(twice, 2.0))


def test_explained_variance_of_a_critic_is_that_of_its_errors():
    scores = Scores(None, torch.tensor([1.0, 2.0, 3.0, 4.0]), None, None)
    returns = torch.tensor([1.0, 2.0, 3.0, 8.0])
    assert critic_metrics(scores, Advantages(returns, returns)) == {
        "value/explained_variance": pytest.approx(17 / 29),  # 1 - 4 / (29 / 3)
        "value/mean": 2.5,
        "value/target_mean": 3.5,
    }
    same = Advantages(torch.ones(4), torch.ones(4))
    assert critic_metrics(scores, same)["value/explained_variance"] == 0.0
    assert critic_metrics(Scores(None, None, None, None), same) == {}

"""A batch without a signal moves nothing, and no update leaves its trust region."""

import math

import pytest
import torch

from llm_gym_agents.algo import TokenStream
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio
from llm_gym_agents.learn.stabilizers import (
    FEW_TOKENS,
    LEAST_RATE,
    TrustRegion,
    shrink_values,
    signal_share,
)
from llm_gym_agents.model.policy_value import PolicyValueModel
from tests.agents.checks import copied, same
from tests.agents.learn.test_ppo import data, make
from tests.agents.tiny import tiny_model
from tests.matrix import some_of

ESTIMATORS = ["gae", "gae_turn", "grpo", "dr_grpo", "rloo", "reinforce_plus_plus",
              "reinforce_plus_plus_baseline", "gigpo", "state_td", "vine"]  # fmt: skip
WON = (1.0, 1.0, 1.0, 1.0)


def scored(scores, seed=0, shaped=0.0):
    """A batch whose episodes have these scores; ``shaped`` is paid at first and taken at last."""
    batch = data(seed)
    batch.reward_T = torch.zeros_like(batch.reward_T)
    ends = batch.turn_ends_T.nonzero().squeeze(-1).view(len(scores), 2)
    batch.reward_T[ends[:, 0]] = shaped * torch.arange(1.0, len(scores) + 1)
    batch.reward_T[ends[:, 1]] = torch.tensor(scores) - batch.reward_T[ends[:, 0]]
    batch.state_K = torch.arange(ends.numel()) % 3
    batch.potential_K = torch.zeros(ends.numel())
    batch.branch_state_B = batch.branch_turn_B = torch.arange(3)
    batch.branch_return_B = torch.ones(3)
    return batch


def ppo_for(estimator, **settings):
    critic = "shared" if estimator.startswith("gae") else "none"
    model = PolicyValueModel(tiny_model(), critic=critic)
    settings = {"gamma": 0.9, "entropy_coef": 0.1, "mini_batch_size": 2, **settings}
    return make(model, adv_estimator=estimator, group_size=2, **settings)


# --- signal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_batches_of_a_perfect_player_change_no_weight_of_the_policy(estimator):
    ppo = ppo_for(estimator)
    before = copied(ppo.model.lm)
    batches = [scored(WON, seed, shaped=0.1) for seed in range(2)]
    rows = [ppo.update(batches[at % 2]) for at in range(50)]
    assert same(before, copied(ppo.model.lm))
    assert {(row["train/signal"], row["policy/kl"]) for row in rows} == {(0.0, 0.0)}
    if ppo.model.value_head is not None:
        assert ppo.model.value_head.weight.abs().sum() > 0, "the critic learns"


@pytest.mark.parametrize("estimator", ESTIMATORS[:-1])  # all branches of ``vine`` won
def test_only_batches_with_a_signal_move_policy_and_optimizer(estimator):
    ppo = ppo_for(estimator)
    ppo.update(scored((1.0, 0.0, 0.0, 1.0)))
    before, kept = copied(ppo.model.lm), lm_state(ppo)
    assert kept
    ppo.update(scored(WON))
    assert same(before, copied(ppo.model.lm))
    assert same(kept, lm_state(ppo))
    ppo.update(scored((0.0, 1.0, 0.0, 1.0)))
    assert not same(before, copied(ppo.model.lm))


def lm_state(ppo):
    """The optimizer's state of the policy."""
    found = {}
    for at, parameter in enumerate(ppo.optimizer.param_groups[0]["params"]):
        state = ppo.optimizer.state.get(parameter, {})
        found |= {f"{at}.{name}": value.clone() for name, value in state.items()}
    return found


@pytest.mark.parametrize(
    ("scores", "shaped", "share"),
    [
        ((1.0, 1.0, 1.0, 0.0), 0.0, math.sqrt(1 / 3)),  # std / mean: sqrt((1 - p) / p)
        ((10.0, 10.0, 10.0, 0.0), 0.0, math.sqrt(1 / 3)),  # in whatever unit
        ((1.0, 1.0, 1.0, -9.0), 0.0, math.sqrt(1 / 3)),  # what it cost to lose does not count
        ((1.0, 0.0, 0.0, 0.0), 0.0, 1.0),  # capped
        ((0.0, 0.0, -0.1, 0.0), 0.0, 1.0),  # wins are out of reach
        ((1.0, 1.0, 1.0, 1.0), 0.0, 0.0),
        ((0.3, 0.3, 0.3, 0.3), 0.7, 0.0),  # rewards that add up to it but for rounding
        ((0.0, 0.0, 0.0, 0.0), 0.0, 0.0),
        ((0.0, 0.0, 0.0, 0.0), 0.1, 1.0),  # turns differ where no episode wins
        ((-2.0, -2.0, -2.0, -8.0), 0.0, math.sqrt(1 / 3)),  # every move costs: from the worst
        ((-8.0, -8.0, -8.0, -2.0), 0.0, 1.0),
        ((-8.0, -8.0, -8.0, -8.0), 0.0, 0.0),
    ],
)
def test_the_signal_share_of_scores(scores, shaped, share):
    batch = scored(scores, shaped=shaped)
    assert signal_share(batch, torch.randn(batch.tokens)) == pytest.approx(share, rel=1e-5)


@pytest.mark.parametrize(
    ("usable", "paid", "share"),
    [
        ([0.0, 0.0], 0.0, 1 / 8),  # one of eight replies cost something
        ([0.0, -0.1], 0.0, 1.0),  # a move costs something, too
        ([0.0, 0.0], 1.0, 1.0),  # one of four episodes is won
    ],
)
def test_a_penalty_alone_is_as_much_signal_as_there_are_unusable_replies(usable, paid, share):
    batch = scored((-0.1, 0.0, *usable))
    ends_T = batch.turn_ends_T.nonzero().squeeze(-1)
    batch.unusable_T = torch.zeros_like(batch.turn_ends_T)
    batch.unusable_T[ends_T[1]] = True
    batch.reward_T[ends_T[3]] += paid
    found = signal_share(batch, torch.randn(batch.tokens), batch.unusable_T)
    assert found == pytest.approx(share)


def test_equal_advantages_are_no_signal_whatever_the_scores():
    assert signal_share(scored((1.0, 1.0, 0.0, 0.0)), torch.zeros(99)) == 0.0


def test_the_step_and_the_entropy_bonus_shrink_with_the_signal():
    some, full, signal = ppo_for("gae"), ppo_for("gae"), 0.05 * math.sqrt(3) / 0.95
    row = some.update(scored((1.0, 1.0, 1.0, 0.8)))
    assert row["train/lr"] == pytest.approx(1e-3 * 2 * signal)
    assert row["loss/entropy"] == pytest.approx(-0.1 * 2 * signal * row["policy/entropy"], rel=1e-4)
    assert full.update(scored((1.0, 0.0, 0.0, 0.0)))["train/lr"] == pytest.approx(1e-3)
    assert some.trust.bound == pytest.approx(full.trust.bound * signal**2)


# --- trust region ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "estimator", "cut"),
    some_of([1e-5, 1e-2, 1.0, 1e-2], ["gae", "grpo"], [(1, 4), (1, 2), (3, 2)]),
)
def test_a_step_of_any_rate_ends_within_the_limit(estimator, cut, rate):
    epochs, size = cut
    ppo = ppo_for(estimator, learning_rate=rate, max_kl=1e-3, ppo_epochs=epochs,
                  mini_batch_size=size, entropy_coef=0.0)  # fmt: skip
    batch = scored((1.0, 0.0, 0.0, 1.0))
    inputs = (batch.ids_S, batch.sequence_lengths_Q, batch.position_T, batch.token_T)
    old_T = ppo.model(*inputs, entropy="none").log_prob_T.detach()
    row = ppo.update(batch)
    new_T = ppo.model(*inputs, entropy="none").log_prob_T.detach()
    assert 0.0 < row["policy/kl"] <= 1e-3
    if size == 4:  # measured on all of the batch
        found = float(k3_of_log_ratio(new_T - old_T).mean())
        assert found == pytest.approx(row["policy/kl"], rel=1e-3)
    assert ppo.trust.rate == (1.0 if rate == 1e-5 else 1 / 1.5)


def test_a_step_that_cannot_be_shortened_enough_is_undone():
    ppo = ppo_for("gae")
    before = copied(ppo.model.lm)
    ppo._moved = lambda *given: 9.0 if not same(before, copied(ppo.model.lm)) else 0.0
    assert ppo.update(scored((1.0, 0.0, 0.0, 1.0)))["policy/kl"] == 0.0
    assert same(before, copied(ppo.model.lm))


def test_the_rate_falls_and_rises_with_the_kl():
    trust = TrustRegion(0.01, [])
    trust.adapt(0.01, shortened=True)
    trust.adapt(0.005, shortened=False)
    assert trust.rate == pytest.approx(2 / 3)
    trust.adapt(0.004, shortened=False)
    assert trust.rate == pytest.approx(2.5 / 3)
    for _ in range(9):
        trust.adapt(0.0, shortened=False)
    assert trust.rate == 1.0
    for _ in range(99):
        trust.adapt(0.01, shortened=True)
    assert trust.rate == LEAST_RATE


def test_half_the_way_back_is_a_quarter_of_the_kl():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    trust = TrustRegion(0.01, [weight])
    trust.begin(1.0)
    with torch.no_grad():
        weight += 1.0
    trust.shorten(0.04)
    assert weight.tolist() == pytest.approx([1.45, 2.45])  # 0.9 of it, to be within
    trust.shorten(math.inf)
    assert weight.tolist() == [1.0, 2.0]


def valued(values, ahead=None):
    lengths_E = torch.tensor([2, 2])
    return TokenStream(
        reward_T=torch.zeros(4),
        lengths_E=lengths_E,
        value_T=torch.tensor(values),
        terminated_E=None if ahead is None else torch.tensor([True, False]),
        bootstrap_E=None if ahead is None else torch.tensor([0.0, ahead]),
    )


@pytest.mark.parametrize(
    ("values", "used"),
    [
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),  # it is right
        ([2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 3.0, 4.0]),  # twice as far apart
        (
            [0.1, 0.2, 0.3, 0.4],
            [2.35, 2.45, 2.55, 2.65],
        ),  # too timid: used with its own differences
        ([4.0, 3.0, 2.0, 1.0], [2.5] * 4),  # the wrong way round
        ([0.0] * 4, [2.5] * 4),  # all equal
    ],
)
def test_values_are_shrunk_to_what_returns_depend_on(values, used):
    found = shrink_values(valued(values), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert found.value_T.tolist() == pytest.approx(used)


def test_bootstrap_values_are_shrunk_like_the_others():
    found = shrink_values(valued([2.0, 4.0, 6.0, 8.0], 10.0), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert found.bootstrap_E[1] == pytest.approx(5.0)


def test_a_long_reply_moves_no_further_than_a_short_one():
    trust = TrustRegion(0.1, [])
    trust.begin(1.0, FEW_TOKENS)
    assert trust.bound == pytest.approx(0.1)
    trust.begin(1.0, 10 * FEW_TOKENS)
    assert trust.bound == pytest.approx(0.01)

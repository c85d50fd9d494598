"""Numbers published by verl 0.9.1, and where other trainers go another way (docs/algorithms.md)."""

import pytest
import torch

from llm_gym_agents.algo import (
    BatchCounts,
    PaddedRows,
    aggregate_loss,
    compute_advantage,
    compute_gae_advantage_return,
    compute_grpo_advantage,
    compute_policy_loss,
    compute_value_loss,
    kl_loss,
)

MASK_A = torch.tensor([[1, 1, 0, 0, 1, 1, 0, 0], [1, 1, 1, 0, 0, 1, 0, 0]])
REWARDS_A = torch.tensor([[0, 0.5, 0, 0, 0, 1, 0, 0], [0, 0, -0.2, 0, 0, 2, 0, 0]])
VALUES_A = torch.tensor([[0.1, 0.2, 9, 9, 0.3, 0.4, 9, 9], [0.5, 0.4, 0.3, 7, 7, 0.2, 7, 7]])

MASK_B = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0]])
REWARDS_B = torch.tensor([[0, 0, 0, 1], [0.25, 0, 0, 0], [0, 0, 0.5, 0]])
GROUPS_B = ["a", "a", "b"]

OLD_C = torch.tensor([[-1, -2, -0.5, -3], [-1, -1, -1, -1], [-0.2, -0.3, -0.4, -0.5]])
NEW_C = torch.tensor([[-0.5, -2.5, -0.5, -1], [-1.3, -1, -1, -1], [-0.1, -0.9, -0.4, -0.5]])
ADVANTAGES_C = torch.tensor([[1, 1, 0, -1], [0.5, 0, 0, 0], [-1, -2, 0.3, 0]])
LOSS_C = {
    "old_log_probs": OLD_C,
    "log_probs": NEW_C,
    "advantages": ADVANTAGES_C,
    "response_mask": MASK_B,
}

VALUES_V = torch.tensor([[1.0, 0, 5, 2], [0.3, 0, 0, 0], [0, 1, 2, 0]])
OLD_VALUES_V = torch.tensor([[0.2, 0.1, 0, 1.9], [0.3, 0, 0, 0], [0.1, 0.9, 1, 0]])
RETURNS_V = torch.tensor([[0.5, 0.5, 9, 2.5], [1, 0, 0, 0], [0, 1.2, 1.9, 0]])


def assert_golden(actual, golden, mask):
    """Equal to ``golden`` where ``mask`` is 1, and exactly 0 elsewhere."""
    expected = torch.tensor(golden)
    torch.testing.assert_close(actual[mask.bool()], expected[mask.bool()], rtol=0, atol=1.1e-6)
    assert (actual[~mask.bool()] == 0).all()


@pytest.mark.parametrize(
    ("gamma", "lam", "advantages", "returns"),
    [
        (
            1.0, 1.0,
            [[1.4, 1.3, 0, 0, 0.7, 0.6, 0, 0], [1.3, 1.4, 1.5, 0, 0, 1.8, 0, 0]],
            [[1.5, 1.5, 0, 0, 1, 1, 0, 0], [1.8, 1.8, 1.8, 0, 0, 2, 0, 0]],
        ),
        (
            0.99, 0.95,
            [[1.243541, 1.218012, 0, 0, 0.6603, 0.6, 0, 0],
             [1.029435, 1.205141, 1.3909, 0, 0, 1.8, 0, 0]],
            [[1.343541, 1.418012, 0, 0, 0.9603, 1.0, 0, 0],
             [1.529435, 1.605141, 1.6909, 0, 0, 2, 0, 0]],
        ),
    ],
)  # fmt: skip
def test_gae(gamma, lam, advantages, returns):
    given = {"token_level_rewards": REWARDS_A, "values": VALUES_A, "response_mask": MASK_A}
    found = compute_gae_advantage_return(**given, gamma=gamma, lam=lam, whiten=False)
    assert_golden(found[0], advantages, MASK_A)
    assert_golden(found[1], returns, MASK_A)
    if gamma == 1.0:
        whitened, _ = compute_gae_advantage_return(**given, gamma=gamma, lam=lam)
        assert_golden(
            whitened,
            [[0.371696, 0.123899, 0, 0, -1.362885, -1.610682, 0, 0],
             [0.123899, 0.371696, 0.619493, 0, 0, 1.362885, 0, 0]],
            MASK_A,
        )  # fmt: skip


def test_reinforce_plus_plus():
    advantages, returns = compute_advantage("reinforce_plus_plus", REWARDS_A, MASK_A)
    assert_golden(returns, [[1.5, 1.5, 0, 0, 1, 1, 0, 0], [1.8, 1.8, 1.8, 0, 0, 2, 0, 0]], MASK_A)
    assert_golden(
        advantages,
        [
            [-0.132288, -0.132288, 0, 0, -1.455163, -1.455163, 0, 0],
            [0.661438, 0.661438, 0.661438, 0, 0, 1.190588, 0, 0],
        ],
        MASK_A,
    )
    _, discounted = compute_advantage("reinforce_plus_plus", REWARDS_A, MASK_A, gamma=0.9)
    assert_golden(
        discounted, [[1.179, 1.31, 0, 0, 0.9, 1, 0, 0], [1.296, 1.44, 1.6, 0, 0, 2, 0, 0]], MASK_A
    )


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("grpo", [0.707105, -0.707105, 0.0]),
        ("dr_grpo", [0.375, -0.375, 0.0]),
        # verl gives a group of one its score, but for one of its two RLOOs: 0, as here.
        ("rloo", [0.75, -0.75, 0.0]),
        ("reinforce_plus_plus_baseline", [0.944911, -1.700840, -0.377964]),
    ],
)
def test_group_estimators(name, scores):
    advantages, returns = compute_advantage(name, REWARDS_B, MASK_B, index=GROUPS_B)
    assert_golden(advantages, [[score] * 4 for score in scores], MASK_B)
    assert_golden(returns, [[1.0] * 4, [0.25] * 4, [0.5] * 4], MASK_B)
    if name.endswith("grpo"):  # the function of the documents
        how = {"norm_by_std": name == "grpo"}
        advantages, _ = compute_grpo_advantage(REWARDS_B, MASK_B, GROUPS_B, **how)
        assert_golden(advantages, [[score] * 4 for score in scores], MASK_B)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token-mean", 0.461176),
        ("seq-mean-token-sum", 1.076077),
        ("seq-mean-token-mean", 0.276379),
        ("seq-mean-token-sum-norm", 0.269019),
    ],
)
def test_policy_loss(aggregation, expected):
    loss, metrics = compute_policy_loss(**LOSS_C, clip_ratio=0.2, aggregation=aggregation)
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert metrics["policy/clip_fraction"] == pytest.approx(0.285714, abs=1e-6)
    assert metrics["policy/kl"] == pytest.approx(-0.171429, abs=1e-6)
    assert metrics["policy/clip_fraction_lower"] == pytest.approx(0.142857, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "token_mean", "seq_mean"),
    [
        ("gspo", {"clip_ratio": (0.2, 0.28)}, 0.186118, 0.062445),
        ("cispo", {"clip_ratio": (0.2, 0.28)}, 0.064212, 0.165498),
    ],
)
def test_other_policy_losses(name, settings, token_mean, seq_mean):
    for aggregation, expected in (("token-mean", token_mean), ("seq-mean-token-mean", seq_mean)):
        how = {"policy_loss": name, "aggregation": aggregation, **settings}
        loss, _ = compute_policy_loss(**LOSS_C, **how)
        assert loss.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("cliprange", "expected"), [(0.5, 0.102857), (0.2, 0.126429)])
def test_value_loss(cliprange, expected):
    given = {"vpreds": VALUES_V, "returns": RETURNS_V, "old_values": OLD_VALUES_V}
    loss, metrics = compute_value_loss(**given, response_mask=MASK_B, cliprange_value=cliprange)
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert metrics["value/clip_fraction"] == pytest.approx(0.142857, abs=1e-6)


def test_kl_loss():
    log_probs = torch.tensor([-0.5, -2.5, -1, -1], requires_grad=True)
    estimate = kl_loss(log_probs, torch.tensor([-0.7, -2, -1, -30]))
    values, gradients = [0.018731, 0.148721, 0, 10.0], [0.2, -0.5, 0, 29.0]
    torch.testing.assert_close(estimate, torch.tensor(values), rtol=0, atol=2e-6)
    estimate.sum().backward()
    torch.testing.assert_close(log_probs.grad, torch.tensor(gradients), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("mode", "alone", "half"),
    [
        ("token-mean", 3.333333, 1.0),
        ("token-sum", 10.0, 10.0),
        ("seq-mean-token-sum", 5.0, 2.5),
        ("seq-mean-token-mean", 4.25, 2.125),
        ("seq-mean-token-sum-norm", 1.666667, 0.833333),
    ],
)
def test_aggregation(mode, alone, half):
    rows = PaddedRows(torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0]]))
    loss_T = rows.pack("loss", torch.arange(1.0, 10.0).view(3, 3))
    norm_length = 3 if mode.endswith("norm") else None
    loss = aggregate_loss(loss_T, rows.lengths_E, mode, norm_length=norm_length)
    assert loss.item() == pytest.approx(alone, abs=1e-6)
    loss = aggregate_loss(
        loss_T,
        rows.lengths_E,
        mode,
        norm_length=norm_length,
        counts=BatchCounts(tokens=10, episodes=4),
    )
    assert loss.item() == pytest.approx(half, abs=1e-6)


# --- where other trainers go another way ------------------------------------------------------

GAMMA, LAM = 0.9, 0.8


@pytest.mark.parametrize(
    ("name", "mask", "rewards", "values", "settings", "ours", "theirs"),
    [
        # OpenRLHF discounts by the length of observations.
        ("gae", [1, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0] * 5, {"lam": LAM}, 0.72, 0.72**4),
        # The critic, untrained on observations, is read there by peers that keep them as steps.
        ("gae", [1, 0, 1], [0, 0, 0], [0.5, 1e6, 0.5], {"lam": LAM}, -0.41, 1e6 * GAMMA - 0.5),
        # AgileRL's token mode cuts at every turn, so a first move never sees the win.
        ("gae", [1, 0, 1], [0, 0, 1], [0] * 3, {"lam": 1.0}, GAMMA, 0.0),
        # RAGEN finds turn ends where the reward is not 0, so it misses the first.
        (
            "gae_turn", [1, 1, 0, 1, 1], [0, 0, 0, 0, 1], [0.2, 0.3, 9, 0.4, 0.5], {"lam": LAM},
            GAMMA * 0.4 - 0.2 + GAMMA * LAM * 0.6, 0.8,
        ),
        # verl, AgileRL and TRL end the return where the budget ended, as if the game were lost.
        (
            "gae", [1, 0, 1, 1], [0] * 4, [0.5] * 4,
            {"lam": 1.0, "gamma": 1.0, "bootstrap": torch.tensor([0.5])}, 0.0, -0.5,
        ),
    ],
)  # fmt: skip
def test_a_first_token_where_peers_differ(name, mask, rewards, values, settings, ours, theirs):
    mask = torch.tensor([mask])
    rewards, values = torch.tensor([rewards]).float(), torch.tensor([values]).float()
    settings = {"gamma": GAMMA, "whiten": False} | settings
    advantages, _ = compute_advantage(name, rewards, mask, values=values, **settings)
    assert advantages[0, 0].item() == pytest.approx(ours, abs=1e-6)
    assert ours != pytest.approx(theirs)


def test_a_fully_masked_row_is_no_member_of_its_group():
    """verl counts it with a score of 0 and shifts the mean of the others."""
    mask = torch.tensor([[1, 1], [1, 1], [0, 0]])
    rewards = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    advantages, _ = compute_advantage("dr_grpo", rewards, mask, index=["a"] * 3)
    assert advantages[:, 0].tolist() == [-1.0, 1.0, 0.0]


def test_a_mean_per_micro_batch_depends_on_the_cut_and_ours_does_not():
    """AgileRL averages each micro-batch, so a short episode alone weighs as much as a long one."""
    old = torch.zeros(2, 4)
    advantages = torch.tensor([[4.0, 0, 0, 0], [1.0, 1, 1, 1]])
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    whole, _ = compute_policy_loss(old, old, advantages, mask)
    means = [compute_policy_loss(old[r], old[r], advantages[r], mask[r])[0] for r in ([0], [1])]
    assert whole.item() == pytest.approx(-8 / 5)
    assert (sum(means) / 2).item() == pytest.approx(-5 / 2)

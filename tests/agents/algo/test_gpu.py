"""A GPU gives the numbers of the CPU, for everything that is registered."""

import dataclasses

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from llm_gym_agents.algo import (
    ADVANTAGES,
    POLICY_LOSSES,
    PolicyInputs,
    TokenObjective,
    TokenStream,
    compute_advantage,
    compute_policy_loss,
    get_advantage,
    get_policy_loss,
    importance_weights,
    mismatch_metrics,
    token_weights,
)

pytestmark = pytest.mark.gpu

LENGTHS = torch.tensor([3, 5000, 1, 0, 40, 7])
TOKENS = int(LENGTHS.sum())


def on_gpu(data: TokenStream | PolicyInputs) -> TokenStream | PolicyInputs:
    fields = {f.name: getattr(data, f.name) for f in dataclasses.fields(data)}
    return type(data)(**{k: None if v is None else v.cuda() for k, v in fields.items()})


@pytest.fixture
def stream() -> TokenStream:
    torch.manual_seed(0)
    ends_T = torch.rand(TOKENS) < 0.1
    ends_T[(LENGTHS.cumsum(0) - 1)[LENGTHS > 0]] = True
    turns = int(ends_T.sum())
    return TokenStream(
        reward_T=torch.randn(TOKENS),
        value_T=torch.randn(TOKENS),
        lengths_E=LENGTHS,
        turn_ends_T=ends_T,
        terminated_E=torch.rand(6) < 0.5,
        bootstrap_E=torch.randn(6),
        group_E=torch.tensor([0, 0, 0, 1, 2, 2]),
        state_K=torch.randint(20, (turns,)),
        potential_K=torch.rand(turns),
        branch_turn_B=torch.randint(turns, (50,)),
        branch_state_B=torch.randint(20, (50,)),
        branch_return_B=torch.randn(50),
    )


@pytest.mark.parametrize("name", ADVANTAGES.names())
def test_every_estimator(stream: TokenStream, name: str) -> None:
    here, there = get_advantage(name)(stream), get_advantage(name)(on_gpu(stream))
    for mine, other in zip(here, there, strict=True):
        assert other.is_cuda
        torch.testing.assert_close(other.cpu(), mine)


def test_tf32_does_not_touch_the_recursion(stream: TokenStream) -> None:
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        there = get_advantage("gae")(on_gpu(stream), lam=1.0, whiten=False)
    finally:
        torch.backends.cudnn.allow_tf32 = allowed
    here = get_advantage("gae")(stream, lam=1.0, whiten=False)
    torch.testing.assert_close(there.returns_T.cpu(), here.returns_T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", POLICY_LOSSES.names())
def test_every_policy_loss(name: str) -> None:
    torch.manual_seed(0)
    old_T = -torch.rand(TOKENS)
    inputs = PolicyInputs(
        log_prob_T=old_T + 0.3 * torch.randn(TOKENS),
        old_log_prob_T=old_T,
        advantages_T=torch.randn(TOKENS),
        lengths_E=LENGTHS,
    )
    loss_T = get_policy_loss(name)(on_gpu(inputs)).loss_T
    torch.testing.assert_close(loss_T.cpu(), get_policy_loss(name)(inputs).loss_T)


def test_padded_rows_weights_and_mismatch() -> None:
    torch.manual_seed(0)
    mask = torch.rand(4, 9) < 0.6
    rewards, values, old, new = torch.randn(4, 4, 9)
    calls = (
        lambda *x: compute_advantage("gae", x[0] * x[4], x[4], values=x[1])[0],
        lambda *x: compute_advantage("grpo", x[0] * x[4], x[4], index=["a", "a", "b", "b"])[0],
        lambda *x: compute_policy_loss(x[2], x[3], x[0], x[4])[0],
        lambda *x: importance_weights(x[2], x[3]),
        lambda *x: mismatch_metrics(x[2], x[3])["mismatch/kl"],
        lambda *x: token_weights(x[4].sum(1), "seq-mean-token-mean"),
    )
    here: tuple[Tensor, ...] = (rewards, values, old, new, mask)
    there = tuple(tensor.cuda() for tensor in here)
    for call in calls:
        torch.testing.assert_close(call(*there).cpu(), call(*here))


@pytest.mark.parametrize("name", POLICY_LOSSES.names())
def test_the_objective_and_its_gradient(name: str) -> None:
    torch.manual_seed(0)
    tokens = 50
    linear = nn.Linear(4, 1)
    trunk = TensorDictModule(
        lambda x: (-linear(x).squeeze(-1).square(), x.sum(-1), x),
        in_keys=["x"],
        out_keys=["token_log_prob", "token_entropy", "hidden"],
    )
    critic = TensorDictModule(linear, in_keys=["hidden"], out_keys=["value"])
    batch = TensorDict(
        {
            "x": torch.randn(tokens, 4),
            "token": torch.zeros(tokens),
            "old_log_prob": -torch.rand(tokens),
            "ref_log_prob": -torch.rand(tokens),
            "advantage": torch.randn(tokens, 1),
            "value_target": torch.randn(tokens, 1),
            "value": torch.randn(tokens, 1),
            "loss_weight": token_weights(torch.tensor([20, 30])),
            "lengths": torch.tensor([20, 30]),
        },
        [],
    )
    results = []
    for device in ("cpu", "cuda"):
        linear.to(device)
        objective = TokenObjective(trunk, critic, policy_loss=name, entropy_coef=0.1, kl_coef=0.1)
        loss, _ = objective.to(device)(batch.to(device))
        (gradient,) = torch.autograd.grad(loss, [linear.weight])
        results.append((loss.cpu(), gradient.cpu()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)

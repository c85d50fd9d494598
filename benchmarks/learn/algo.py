"""Time per million tokens of the estimators and losses, beside what else one could run.

Contenders of one task are timed in turn, round after round, in one process and on one thread, so
that a busy machine disturbs all alike; ratios are medians over rounds of ratios within a round.
Slow or wasteful contenders get fewer tokens and their time is scaled to a million; where their
cost grows faster than the tokens, that favours them.

Shapes: T sampled tokens of all episodes, E episodes.

    OMP_NUM_THREADS=1 python -m benchmarks.learn.algo
    OMP_NUM_THREADS=1 python -m benchmarks.learn.algo --rounds 9 --only gae

Prints a table and writes ``benchmarks/results/algo.json``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from timeit import default_timer

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives.value import GAE
from torchrl.objectives.value.functional import generalized_advantage_estimate

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents.algo import (
    PolicyInputs,
    TokenStream,
    get_advantage,
    get_policy_loss,
    make_clip_ppo_loss,
)

RESULT = RESULTS / "algo.json"
GAMMA = 0.99


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do a task. The first of a task is ours, and ratios are relative to it."""

    task: str
    name: str
    tokens: int
    run: Callable[[], object]


def even(tokens: int) -> Tensor:
    """Episodes of 1,000 tokens."""
    return torch.full((tokens // 1000,), 1000)


def uneven(tokens: int) -> Tensor:
    """1,000 episodes whose lengths spread over three orders of magnitude."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(1000, generator=generator).mul(1.5).exp()
    return (weights / weights.sum() * tokens).long().clamp(min=1)


def one(tokens: int) -> Tensor:
    """A single episode."""
    return torch.tensor([tokens])


def stream_of(lengths_E: Tensor) -> TokenStream:
    generator = torch.Generator().manual_seed(1)
    tokens, episodes = int(lengths_E.sum()), len(lengths_E)
    return TokenStream(
        reward_T=torch.randn(tokens, generator=generator),
        value_T=torch.randn(tokens, generator=generator),
        lengths_E=lengths_E,
        terminated_E=torch.rand(episodes, generator=generator) < 0.5,
        bootstrap_E=torch.randn(episodes, generator=generator),
        group_E=torch.arange(episodes) // 8,
    )


def fresh(stream: TokenStream) -> TokenStream:
    """The same stream, checked again and without what it has derived so far."""
    return dataclasses.replace(stream)


def python_gae(stream: TokenStream, lam: float) -> list[float]:
    """The recursion over Python lists."""
    rewards, values = stream.reward_T.tolist(), stream.value_T.tolist()
    terminated, bootstrap = stream.terminated_E.tolist(), stream.bootstrap_E.tolist()
    advantages = [0.0] * len(rewards)
    end = len(rewards)
    for episode in reversed(range(len(terminated))):
        start = end - int(stream.lengths_E[episode])
        following, carried = 0.0 if terminated[episode] else bootstrap[episode], 0.0
        for t in range(end - 1, start - 1, -1):
            carried = rewards[t] + GAMMA * following - values[t] + GAMMA * lam * carried
            advantages[t], following = carried, values[t]
        end = start
    return advantages


def next_values(stream: TokenStream) -> Tensor:
    next_T = torch.cat([stream.value_T[1:], stream.value_T[:1]])
    next_T[stream.last_T] = stream.bootstrap_E
    return next_T


def torchrl_flat(stream: TokenStream, lam: float, vectorized: bool | None) -> TensorDict:
    """TorchRL's module on the flat stream, as one would call it."""
    done_T = stream.last_T
    flat = TensorDict(
        {
            "state_value": stream.value_T[:, None],
            "next": {
                "state_value": next_values(stream)[:, None],
                "reward": stream.reward_T[:, None],
                "done": done_T[:, None],
                "terminated": (done_T & stream.on_tokens(stream.terminated_E))[:, None],
            },
        },
        [len(done_T)],
    )
    return GAE(gamma=GAMMA, lmbda=lam, value_network=None, vectorized=vectorized)(flat)


def torchrl_padded(stream: TokenStream, lam: float) -> Tensor:
    """TorchRL's loop on one grid padded to the longest episode."""
    mask_ET = torch.arange(int(stream.lengths_E.max())) < stream.lengths_E[:, None]

    def grid(value_T: Tensor) -> Tensor:
        empty = torch.zeros(mask_ET.shape, dtype=value_T.dtype)
        return empty.masked_scatter(mask_ET, value_T)[..., None]

    advantages_ET1, _ = generalized_advantage_estimate(
        GAMMA,
        lam,
        grid(stream.value_T),
        grid(next_values(stream)),
        grid(stream.reward_T),
        grid(stream.last_T),
        grid(stream.last_T & stream.on_tokens(stream.terminated_E)),
    )
    return advantages_ET1[..., 0][mask_ET]


def python_grpo(stream: TokenStream) -> list[float]:
    """Scores, group statistics and the broadcast over Python lists."""
    rewards, lengths = stream.reward_T.tolist(), stream.lengths_E.tolist()
    scores, start = [], 0
    for length in lengths:
        scores.append(sum(rewards[start : start + length]))
        start += length
    groups: dict[int, list[float]] = {}
    for group, score in zip(stream.group_E.tolist(), scores, strict=True):
        groups.setdefault(group, []).append(score)
    advantages: list[float] = []
    for group, score, length in zip(stream.group_E.tolist(), scores, lengths, strict=True):
        mates = groups[group]
        spread = statistics.stdev(mates) + 1e-6
        advantages += [(score - statistics.fmean(mates)) / spread] * length
    return advantages


def policy_tensors(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    old_T = -torch.rand(tokens, generator=generator)
    log_prob_T = (old_T + 0.2 * torch.randn(tokens, generator=generator)).requires_grad_()
    return log_prob_T, old_T, torch.randn(tokens, generator=generator)


def ppo_function(log_prob_T: Tensor, old_T: Tensor, advantages_T: Tensor) -> Tensor:
    inputs = PolicyInputs(
        log_prob_T=log_prob_T,
        old_log_prob_T=old_T,
        advantages_T=advantages_T,
        lengths_E=torch.tensor([len(old_T)]),
    )
    loss = get_policy_loss("ppo")(inputs).loss_T.mean()
    return torch.autograd.grad(loss, log_prob_T)[0]


def ppo_torchrl(log_prob_T: Tensor, old_T: Tensor, advantages_T: Tensor) -> Tensor:
    batch = TensorDict(
        {
            "token_log_prob": log_prob_T,
            "token_entropy": torch.zeros_like(old_T),
            "old_log_prob": old_T,
            "token": torch.zeros_like(old_T),
            "advantage": advantages_T[:, None],
        },
        [],
    )
    loss = make_clip_ppo_loss(None, None)(batch)["loss_objective"].mean()
    return torch.autograd.grad(loss, log_prob_T)[0]


def gae_contenders(tokens: int) -> list[Contender]:
    few, some = tokens // 50, tokens // 10
    contenders = []
    for task, shape, lam in (
        ("gae, even episodes", even, 0.95),
        ("gae, even episodes, lambda 1", even, 1.0),
        ("gae, uneven episodes", uneven, 0.95),
        ("gae, one episode", one, 0.95),
    ):
        large, medium, small = (stream_of(shape(n)) for n in (tokens, some, few))
        # Uneven rows of a million tokens would fill a grid of fifty million cells.
        padded = large if shape is even else medium

        contenders += [
            Contender(
                task,
                "llm_gym_agents",
                tokens,
                lambda s=large, x=lam: get_advantage("gae")(
                    fresh(s), gamma=GAMMA, lam=x, whiten=False
                ),
            ),
            Contender(task, "Python loop", tokens, lambda s=large, x=lam: python_gae(s, x)),
            Contender(
                task, "TorchRL GAE, default", few, lambda s=small, x=lam: torchrl_flat(s, x, None)
            ),
            Contender(
                task,
                "TorchRL GAE, vectorized=True",
                some,
                lambda s=medium, x=lam: torchrl_flat(s, x, True),
            ),
            Contender(
                task,
                "TorchRL loop, padded rows",
                len(padded.reward_T),
                lambda s=padded, x=lam: torchrl_padded(s, x),
            ),
        ]
    return contenders


def other_contenders(tokens: int) -> list[Contender]:
    grpo = stream_of(even(tokens))
    policy = policy_tensors(tokens)
    return [
        Contender("grpo", "llm_gym_agents", tokens, lambda: get_advantage("grpo")(fresh(grpo))),
        Contender("grpo", "Python loop", tokens, lambda: python_grpo(grpo)),
        Contender("ppo loss and gradient", "llm_gym_agents", tokens, lambda: ppo_function(*policy)),
        Contender("ppo loss and gradient", "ClipPPOLoss", tokens, lambda: ppo_torchrl(*policy)),
    ]


def measure(contenders: list[Contender], rounds: int) -> list[dict[str, object]]:
    """One row per contender: seconds per million tokens, and how many times ours that is."""
    seconds: dict[int, list[float]] = {i: [] for i in range(len(contenders))}
    for round_ in range(rounds + 1):
        for i, contender in enumerate(contenders):
            start = default_timer()
            contender.run()
            elapsed = default_timer() - start
            if round_:  # the first round warms up
                seconds[i].append(elapsed * 1e6 / contender.tokens)
    rows = []
    ours = 0
    for i, contender in enumerate(contenders):
        if contender.task != contenders[ours].task:
            ours = i
        ratios = [mine / base for mine, base in zip(seconds[i], seconds[ours], strict=True)]
        rows.append(
            {
                "task": contender.task,
                "name": contender.name,
                "tokens": contender.tokens,
                "s_per_million": round(statistics.median(seconds[i]), 4),
                "fastest": round(min(seconds[i]), 4),
                "slowest": round(max(seconds[i]), 4),
                "times_ours": round(statistics.median(ratios), 2),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1_000_000, help="tokens of our runs")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--only", default="", help="tasks that contain this text")
    parser.add_argument("--out", type=Path, default=RESULT, help="where to write the result")
    args = parser.parse_args()

    # On small tensors two threads wait for each other longer than they work.
    torch.set_num_threads(1)
    contenders = [
        contender
        for contender in gae_contenders(args.tokens) + other_contenders(args.tokens)
        if args.only in contender.task
    ]
    if not contenders:
        parser.error(f"no task contains {args.only!r}")
    rows = measure(contenders, args.rounds)

    print(f"{'task':<31}{'':<31}{'tokens':>10}{'s per million':>15}{'times ours':>12}")
    for row in rows:
        print(
            f"{row['task']:<31}{row['name']:<31}{row['tokens']:>10,}"
            f"{row['s_per_million']:>15.3f}{row['times_ours']:>12.1f}"
        )
    about = provenance(__file__, ("torch", "torchrl"))
    result = {**about, "threads": torch.get_num_threads(), "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""verl's advantages and policy loss beside ours, on one multi-turn batch, one thread.

    python benchmarks/peers/verl_parts.py                     # makes .venv-verl
    python benchmarks/peers/verl_parts.py --python PYTHON     # that has verl 0.9 already

256 episodes of eight turns: 64 sampled tokens and 192 of an observation each. verl gets padded rows
with a mask, as its trainer has them; ours gets the stream of sampled tokens. Seconds are medians,
``apart`` is the largest difference of the two results. What is left of verl, its workers and its
trainer, needs Ray and a GPU backend (FSDP or Megatron with vLLM or SGLang) and does not run here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import provenance
from peers.venvs import python_with

from llm_gym_agents.algo import PolicyInputs, TokenStream, get_advantage, get_policy_loss

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "verl_parts.json"
PACKAGES = (
    "torch==2.13.0", "tensordict==0.12.4", "transformers==5.14.1", "omegaconf", "hydra-core",
    "codetiming", "pandas", "packaging", "numpy", "ray", "cachetools", "datasets==4.8.0",
)  # fmt: skip
VERL = ("--no-deps", "verl==0.9.1")
EPISODES, TURNS, SAMPLED, SEEN = 256, 8, 64, 192


def batch(episodes: int = EPISODES) -> dict[str, Any]:
    """Return padded rows as verl has them; episodes are of different length."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.cat([torch.ones(SAMPLED), torch.zeros(SEEN)]).bool()
    mask = turn.repeat(TURNS)[None].repeat(episodes, 1)
    turns = torch.randint(2, TURNS + 1, (episodes,), generator=generator)
    length = turns * (SAMPLED + SEEN) - SEEN
    mask &= torch.arange(mask.shape[1]) < length[:, None]
    shape = mask.shape
    reward = torch.zeros(shape)
    won = torch.rand(episodes, generator=generator) < 0.5
    reward[torch.arange(episodes), length - 1] = won.float()
    old = -torch.rand(shape, generator=generator)
    return {
        "mask": mask,
        "reward": reward,
        "value": torch.randn(shape, generator=generator) * mask,
        "group": torch.arange(episodes) // 8,
        "old": old,
        "log_prob": old + 0.2 * torch.randn(shape, generator=generator),
        "advantage": torch.randn(shape, generator=generator),
    }


def ours(given: dict[str, Any], rounds: int) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return seconds and results of our functions, on the sampled tokens."""
    sys.path.insert(0, str(HERE / "train"))
    from plain_timing import timed

    mask = given["mask"]
    lengths_E = mask.sum(1)

    def stream() -> TokenStream:
        return TokenStream(
            reward_T=given["reward"][mask],
            value_T=given["value"][mask],
            lengths_E=lengths_E,
            terminated_E=torch.ones(len(lengths_E), dtype=torch.bool),
            bootstrap_E=torch.zeros(len(lengths_E)),
            group_E=given["group"],
        )

    def ppo() -> torch.Tensor:
        log_prob_T = given["log_prob"][mask].clone().requires_grad_()
        inputs = PolicyInputs(
            log_prob_T=log_prob_T,
            old_log_prob_T=given["old"][mask],
            advantages_T=given["advantage"][mask],
            lengths_E=lengths_E,
        )
        return torch.autograd.grad(get_policy_loss("ppo")(inputs).loss_T.mean(), log_prob_T)[0]

    def estimate(name: str, **settings: Any) -> torch.Tensor:
        return get_advantage(name)(stream(), **settings).advantages_T

    runs = {
        "gae": lambda: estimate("gae", gamma=0.99, lam=0.95),
        "grpo": lambda: estimate("grpo"),
        "rloo": lambda: estimate("rloo"),
        "ppo": ppo,
    }
    found = {name: timed(run, rounds) for name, run in runs.items()}
    return {name: each[0] for name, each in found.items()}, {
        name: each[1] for name, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="that has verl; made in .venv-verl unless given")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    torch.set_num_threads(1)
    given = batch()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "batch.pt"
        torch.save(given, place)
        python = args.python or python_with("verl", PACKAGES, VERL)
        command = [python, str(HERE / "train" / "verl_side.py"), str(place)]
        done = subprocess.run([*command, str(args.rounds)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"verl's side failed: {done.stderr[-1500:]}")
        theirs = json.loads(done.stdout.splitlines()[-1])
        values = torch.load(f"{place}.verl")
    seconds, results = ours(given, args.rounds)
    rows = {}
    for name, own in seconds.items():
        rows[name] = {"ours_s": own, "verl": theirs[name]}
        if name in values:
            rows[name]["times"] = theirs[name]["seconds"] / own
            rows[name]["apart"] = float((values[name] - results[name]).abs().max())
        print(name, json.dumps(rows[name]))
    tokens = int(given["mask"].sum())
    made = provenance(__file__, ("torch", "torchrl")) | {"verl": "0.9.1", "sampled_tokens": tokens}
    args.out.write_text(json.dumps(made | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

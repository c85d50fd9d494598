"""verl's advantages and policy loss beside ours, on one multi-turn batch and one thread.

256 episodes of two to eight turns: 64 sampled tokens and 192 of an observation each. verl gets
padded rows with a mask. Ours reads a stream of sampled tokens; its time includes picking them from
the rows. Calls take turns; seconds are medians of CPU time. ``apart`` is the largest difference.

    python -m benchmarks.peers.verl      # installs verl and this checkout into .venv-verl
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec
from statistics import median
from time import process_time
from typing import Any

import torch
from torch import Tensor

from benchmarks.lib.machine import RESULTS, ROOT, provenance
from benchmarks.lib.workers import python_with
from benchmarks.peers.tables import VERL_PARTS
from llm_gym_agents.algo import PolicyInputs, TokenStream, get_advantage, get_policy_loss

OURS = ("--constraint", str(ROOT / "constraints.txt"), "--editable", f"{ROOT}[train]")
NEEDS = ("ray", "codetiming", "hydra-core", "cachetools", "datasets==4.8.0", "pandas")
EPISODES, GROUP, TURNS, SAMPLED, TURN = 256, 8, 8, 64, 256
DISCOUNT = {"gamma": 0.99, "lam": 0.95}


def batch() -> dict[str, Any]:
    """Return padded rows of episodes of different lengths."""
    torch.manual_seed(0)
    turns = torch.randint(2, TURNS + 1, (EPISODES, 1))
    at = torch.arange(TURNS * TURN).expand(EPISODES, -1)
    mask = (at % TURN < SAMPLED) & (at < turns * TURN)
    last = at == turns * TURN - TURN + SAMPLED - 1
    names = ("value", "old", "advantage", "log_prob")
    given: dict[str, Any] = {name: torch.randn(mask.shape) * mask for name in names}
    given["log_prob"] = given["old"] + 0.2 * given["log_prob"]
    given["reward"] = (last & (torch.rand(EPISODES, 1) < 0.5)).float()
    groups = torch.arange(EPISODES) // GROUP
    given |= {"group": groups, "names": groups.numpy().astype(str).astype(object)}
    return given | {"mask": mask, "float_mask": mask.float()}


def ours(given: dict[str, Any], name: str) -> Tensor:
    mask = given["mask"]
    if name != "ppo":
        stream = TokenStream(
            reward_T=given["reward"][mask],
            value_T=given["value"][mask] if name == "gae" else None,
            lengths_E=mask.sum(1),
            group_E=given["group"],
        )
        return get_advantage(name)(stream, **DISCOUNT if name == "gae" else {}).advantages_T
    log_prob_T = given["log_prob"][mask].requires_grad_()
    inputs = PolicyInputs(
        log_prob_T=log_prob_T,
        old_log_prob_T=given["old"][mask],
        advantages_T=given["advantage"][mask],
        lengths_E=mask.sum(1),
    )
    return torch.autograd.grad(get_policy_loss(name)(inputs).loss_T.mean(), log_prob_T)[0]


def verls(given: dict[str, Any], name: str) -> Tensor:
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig

    reward, mask = given["reward"], given["float_mask"]
    if name == "gae":
        return core_algos.compute_gae_advantage_return(reward, given["value"], mask, **DISCOUNT)[0]
    if name != "ppo":
        return core_algos.get_adv_estimator_fn(name)(reward, mask, given["names"])[0]
    log_prob = given["log_prob"].clone().requires_grad_()
    arguments = given["old"], log_prob, given["advantage"], mask
    actor = ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True)
    loss, _ = core_algos.compute_policy_loss_vanilla(*arguments, "token-mean", actor)
    return torch.autograd.grad(loss, log_prob)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=51)
    args = parser.parse_args()
    if find_spec("verl") is None:
        python = python_with("verl", (*OURS, *NEEDS), ("--no-deps", "verl==0.9.1"))
        sys.exit(subprocess.call([python, "-m", "benchmarks.peers.verl", *sys.argv[1:]], cwd=ROOT))
    torch.set_num_threads(1)
    found, given, rows = (
        provenance(__file__, ("verl", "torch"), depends_on=["agents/llm_gym_agents/algo"]),
        batch(),
        {},
    )
    sides = {"ours": ours, "verl": verls}
    for name in VERL_PARTS:
        apart = (ours(given, name) - verls(given, name)[given["mask"]]).abs().max().item()
        assert apart < 2e-6, f"{name} differs by {apart}"
        spent: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(args.rounds):
            for side in sorted(sides, reverse=bool(number % 2)):
                start = process_time()
                sides[side](given, name)
                spent[side].append(process_time() - start)
        row = {f"{side}_s": median(each) for side, each in spent.items()}
        rows[name] = row | {"times": row["verl_s"] / row["ours_s"], "apart": apart}
        print(name, json.dumps(rows[name]))
    (RESULTS / "verl.json").write_text(json.dumps(found | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""verl's side of ``verl_parts.py``: its functions on the saved batch. Prints its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

sys.path.insert(0, str(Path(__file__).parent))
from plain_timing import timed


def tasks(batch: dict[str, Any]) -> dict[str, Callable[[], torch.Tensor]]:
    """Return verl's way to do each task, on padded rows with a mask."""
    reward, mask = batch["reward"], batch["mask"].float()
    groups = np.array([str(group) for group in batch["group"].tolist()], dtype=object)
    actor = ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True)

    def gae() -> torch.Tensor:
        found, _ = core_algos.compute_gae_advantage_return(reward, batch["value"], mask, 0.99, 0.95)
        return found

    def grouped(name: str) -> Callable[[], torch.Tensor]:
        estimate = core_algos.get_adv_estimator_fn(name)
        return lambda: estimate(token_level_rewards=reward, response_mask=mask, index=groups)[0]

    def ppo() -> torch.Tensor:
        log_prob = batch["log_prob"].clone().requires_grad_()
        loss, _ = core_algos.compute_policy_loss_vanilla(
            batch["old"], log_prob, batch["advantage"], mask, "token-mean", actor
        )
        return torch.autograd.grad(loss, log_prob)[0]

    return {"gae": gae, "grpo": grouped("grpo"), "rloo": grouped("rloo"), "ppo": ppo}


def main() -> None:
    torch.set_num_threads(1)
    batch = torch.load(sys.argv[1])
    found, kept = {}, {}
    for name, run in tasks(batch).items():
        try:
            seconds, values = timed(run, int(sys.argv[2]))
        except Exception as error:  # noqa: BLE001 - a part that cannot run here is a result
            found[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
            continue
        found[name], kept[name] = {"seconds": seconds}, values[batch["mask"]]
    torch.save(kept, sys.argv[1] + ".verl")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

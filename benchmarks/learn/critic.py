"""What could a value head explain? Heads fitted to the hidden states of a run's policy, judged.

    python -m benchmarks.learn.critic RUN        # a run of the recipe text-game-easy

The truth are values by branches (``llm-gym eval --credit``), after the warm start and at the end,
with the shaped reward of the run and with the plain one. Heads are fitted to 256 other episodes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents.algo.credit import explained_variance
from llm_gym_agents.commands import credit
from llm_gym_agents.commands.find_model import as_trained
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.model.load import load_model
from llm_gym_agents.rollouts.branches import all_places, play_branches, rewards_to_go
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Turn

EPISODES, BRANCHES, OTHERS = 256, 16, 10**6
RATES, STEPS = (8e-4, 1e-2, 3e-2), (16, 80, 400)


@torch.no_grad()
def hidden(lm: Any, turns: Sequence[Turn]) -> Tensor:
    """Return the hidden state from which the first token of each turn is sampled."""
    rows = [torch.tensor(turn.prompt_ids) for turn in turns]
    found = []
    for at in range(0, len(rows), 64):
        ids = torch.nn.utils.rnn.pad_sequence(rows[at : at + 64], batch_first=True)
        lengths = torch.tensor([len(row) for row in rows[at : at + 64]])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        states = lm.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        found.append(states[torch.arange(len(ids)), lengths - 1])
    return torch.cat(found).double()


def ridge(x: Tensor, y: Tensor, asked: Tensor, penalty: float) -> Tensor:
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    a = (x - mean) / deviation
    both = a.T @ a + penalty * len(a) * torch.eye(a.shape[1], dtype=a.dtype)
    return (asked - mean) / deviation @ torch.linalg.solve(both, a.T @ (y - y.mean())) + y.mean()


def trained(x: Tensor, y: Tensor, asked: Tensor, rate: float, steps: int) -> Tensor:
    torch.manual_seed(0)
    head = torch.nn.Linear(x.shape[1], 1).double()
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate)
    for _ in range(steps):
        drawn = torch.randint(len(x), (128,))
        optimizer.zero_grad()
        (head(x[drawn])[:, 0] - y[drawn]).square().mean().backward()
        optimizer.step()
    return head(asked)[:, 0].detach()


def judge(model: str, config: ConfigStore, shaping: bool) -> dict[str, Any]:
    """Return what the run's critic and other heads explain."""
    how, gamma = as_trained(config.inference), config.training.gamma
    sampling = Sampling(max_tokens=how["max_tokens"], temperature=1.0)
    policy = LLMPolicy.from_pretrained(
        model, context=how["context"], sampling=sampling, system_prompt=how["system_prompt"]
    )
    seen: dict[str, Any] = {}
    real_judge, real_truth = credit._judge, credit._truth

    def truth(rollout: Any, returns: Any, places: Any, gamma: float) -> Any:
        value, advantage = real_truth(rollout, returns, places, gamma)
        seen.update(rollout=rollout, places=places, value=value)
        return value, advantage

    def with_others(play: Any, tasks: Any, *rest: Any) -> Any:
        ids = range(OTHERS, OTHERS + EPISODES)
        others = play([EpisodeTask(id, id // 8, id // 8, tasks[0].options) for id in ids])
        seen["others"] = others = others.without_failed()
        seen["branches"] = play_branches(play, others, all_places(others), 1, first=BRANCHES)
        return real_judge(play, tasks, *rest)

    with mock.patch.multiple(credit, _truth=truth, _judge=with_others):
        report, _ = credit.credit(
            str(config.environment.env_id), policy, config.training, episodes=128,
            branches=BRANCHES, critic=credit.load_critic(model, config),
            env_kwargs={**config.environment.env_kwargs, "shaping": shaping},
        )  # fmt: skip
    others, rollout, lm = seen["others"], seen["rollout"], load_model(model).eval()
    x = hidden(lm, [turn for own in others.turns for turn in own])
    asked = hidden(lm, [rollout.turns[at][turn] for at, turn in seen["places"]])
    returns = torch.tensor([g for each in others.episodes for g in rewards_to_go(each, gamma)])
    branched = {branch.place: branch.to_go(gamma) for branch in seen["branches"]}
    again = torch.tensor([branched.get(place, np.nan) for place in all_places(others)])
    y = returns.double()
    means = torch.where(again.isnan(), y, (y + again) / 2)
    groups = np.array([int(rollout.episodes[at].group or 0) for at, _ in seen["places"]])
    heads = {
        "ridge on returns": ridge(x, y, asked, 0.1),
        "ridge on the mean of a return and that of a branch": ridge(x, means, asked, 0.1),
    } | {
        f"rate {rate:g}, {steps} steps": trained(x, y, asked, rate, steps)
        for rate in RATES
        for steps in STEPS
    }
    return {
        "success": report.success,
        "critic": report.critic,
        "critic_ceiling": report.critic_ceiling,
        "spread_of_values": float(seen["value"].mean_N.std()),
        "turns": len(x),
        "heads": {
            name: explained_variance(head.numpy(), seen["value"], groups)
            for name, head in heads.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    torch.set_num_threads(1)
    config = ConfigStore.load(run / "config.json")
    rows = {
        f"{when}, {'shaped' if shaping else 'plain'} reward": judge(str(model), config, shaping)
        for when, model in {"warm start": run / "warm-start/model", "end": run / "final"}.items()
        for shaping in (True, False)
    }
    about = provenance(__file__, ("torch", "torchrl", "transformers"))
    text = json.dumps({"provenance": about, "rows": rows}, indent=1)
    (RESULTS / "critic.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

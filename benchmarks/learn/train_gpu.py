"""Training on one GPU: speed and memory compared with a hand-written loop, and what fits.

*update.* ``PPO.update`` in turn with a hand-written loop (float32 weights, bfloat16 autocast, a
scoring pass, two epochs of four steps, a chunked head, fused AdamW) on 64 episodes of 1,024 tokens.
``ratio`` is our speed over the loop's, ``memory`` our peak over the loop's.

*prefix.* ``PPO.update`` on sequences of 256 ids with common prefixes: each prefix read ``once``,
every sequence read ``whole``, and whole without CUDA graphs (``eager``). ``limit`` is the ratio of
multiplications with weights, without attention, optimizer and trust region.

*fits.* One update of random weights: all weights, with checkpointing, with LoRA. Seconds, peak
memory, and the prediction of ``memory_plan``.

    python -m benchmarks.learn.train_gpu update --model FOLDER
    python -m benchmarks.learn.train_gpu prefix
    python -m benchmarks.learn.train_gpu fits

Each adds its part to ``benchmarks/results/train_gpu.json`` (or ``--out``).
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.synthetic import batch, llama
from llm_gym_agents import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.model import policy_value
from llm_gym_agents.model.load import ModelShape
from llm_gym_agents.model.shared_prefix import Prefixes
from llm_gym_agents.rollouts.rollout_data import RolloutData
from llm_gym_agents.trainer.build import prepare_lm
from llm_gym_agents.trainer.memory_plan import GIB, MemoryPlan, plan_memory

RESULT = RESULTS / "train_gpu.json"
TURNS, PROMPT, REPLY = 8, 96, 32
LENGTH = TURNS * (PROMPT + REPLY)
SIZES = {
    # hidden, layers, heads, key-value heads, MLP, vocabulary, tied
    "tiny": (128, 2, 4, 2, 256, 500, True),
    "small": (256, 4, 4, 2, 768, 1000, True),
    "135M": (576, 30, 9, 3, 1536, 49152, True),
    "0.5B": (896, 24, 14, 2, 4864, 151936, True),
    "1.5B": (1536, 28, 12, 2, 8960, 151936, True),
    "7B": (3584, 28, 28, 4, 18944, 152064, False),
}
SPEED, MEMORY = 0.85, 0.8
"""The aims: at least that share of the speed of the loop by hand, at most that of its memory."""
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def load(name: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    if name not in SIZES:
        return AutoModelForCausalLM.from_pretrained(name, dtype=dtype).to(DEVICE)
    with torch.device(DEVICE):
        return AutoModelForCausalLM.from_config(llama(*SIZES[name]), dtype=dtype)


def settings(episodes: int, micro: int) -> ConfigStore:
    config = ConfigStore()
    config.model.dtype = "bfloat16"
    config.training.batch_size, config.training.mini_batch_size = episodes, episodes // 4
    config.training.micro_batch_tokens = micro
    return config


def measured(run: Callable[[], Any], repeats: int) -> dict[str, float]:
    run()
    seconds = []
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    # On a CPU others may be at work as well.
    now = perf_counter if DEVICE == "cuda" else process_time
    for _ in range(repeats):
        start = now()
        run()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        seconds.append(now() - start)
    peak = torch.cuda.max_memory_allocated() / GIB if DEVICE == "cuda" else 0.0
    return {"seconds": statistics.median(seconds), "peak_gib": peak}


def free() -> None:
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


# --- update beside a loop written by hand -------------------------------------------------------


def by_hand(name: str, episodes: int, repeats: int) -> dict[str, float]:
    """The loop that an expert would write for this batch."""
    lm = load(name).train()
    value = torch.nn.Linear(lm.config.hidden_size, 1).to(DEVICE)
    optimizer = torch.optim.AdamW(
        [*lm.parameters(), *value.parameters()], lr=1e-5, fused=DEVICE == "cuda"
    )
    data = batch(lm.config.vocab_size, episodes, TURNS, PROMPT, REPLY)
    ids = data.ids_S.view(episodes, LENGTH).to(DEVICE)
    sampled = torch.zeros(TURNS, PROMPT + REPLY, dtype=torch.bool)
    sampled[:, PROMPT - 1 : -1] = True
    where = sampled.view(-1).nonzero().view(-1).to(DEVICE)

    def log_probs(hidden: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        table = torch.log_softmax(lm.lm_head(hidden).float(), -1)
        return table.gather(-1, target[:, None])[:, 0]

    def read(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(DEVICE, torch.bfloat16):
            states = lm.base_model(input_ids=rows, use_cache=False).last_hidden_state[:, where]
            flat, target = states.flatten(0, 1), rows[:, where + 1].flatten()
            parts = [
                checkpoint(log_probs, some, own, use_reentrant=False)
                for some, own in zip(flat.split(2048), target.split(2048), strict=True)
            ]
            return torch.cat(parts), value(flat.float())

    def update() -> None:
        size = episodes // 4
        with torch.no_grad():
            for rows in ids.split(size):
                read(rows)
        for _ in range(2):
            for rows in ids.split(size):
                optimizer.zero_grad(set_to_none=True)
                found, worth = read(rows)
                (-found.mean() + 0.5 * worth.square().mean()).backward()
                torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
                optimizer.step()

    return measured(update, repeats)


def ours(name: str, episodes: int, micro: int, repeats: int) -> dict[str, Any]:
    lm = load(name)
    config = settings(episodes, micro)
    learner = Learner(prepare_lm(config.model, lm), config.training, config.model)
    data = batch(lm.config.vocab_size, episodes, TURNS, PROMPT, REPLY)
    found = measured(lambda: learner.ppo.update(data), repeats)
    last = learner.ppo.update(data)
    parts = {key: last[f"time/{key}_s"] for key in ("score", "advantage", "train")}
    return found | {"micro_batch_tokens": micro, "phases_s": parts}


def update_rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in [*([args.model] if args.model else []), *args.sizes]:
        hand = by_hand(name, args.episodes, args.repeats)
        free()
        for micro in args.micro:
            mine = ours(name, args.episodes, micro, args.repeats)
            free()
            tokens = 2 * args.episodes * LENGTH
            row = {
                "model": Path(name).name,
                "hand": hand,
                "ours": mine,
                "ratio": hand["seconds"] / mine["seconds"],
                "memory": mine["peak_gib"] / hand["peak_gib"] if hand["peak_gib"] else None,
                "trained_tokens_per_s": tokens / mine["seconds"],
            }
            row["meets"] = row["ratio"] >= SPEED and (row["memory"] or 0) <= MEMORY
            print(
                f"{row['model']:<10} micro {micro:>6}: by hand {hand['seconds']:.3f} s "
                f"{hand['peak_gib']:.1f} GiB; ours {mine['seconds']:.3f} s {mine['peak_gib']:.1f} "
                f"GiB; ratio {row['ratio']:.2f}, memory {row['memory'] or 0:.2f}"
                f"{'; meets both aims' if row['meets'] else ''}",
                flush=True,
            )
            yield row


# --- shared prefixes ----------------------------------------------------------------------------


class Case(NamedTuple):
    """The common prefixes of sequences of 256 ids."""

    shared: int
    """Ids at the beginning that are the same."""
    group: int
    """Sequences that have the same ones."""
    sampled: int
    """Ids at the end that are learned."""

    def batch(self, vocabulary: int, episodes: int) -> RolloutData:
        data = batch(vocabulary, episodes, 1, 256 - self.sampled, self.sampled)
        rows = data.ids_S.view(episodes, 256)
        for first in range(0, episodes, self.group):
            rows[first : first + self.group, : self.shared] = rows[first, : self.shared]
        data.group_E = torch.arange(episodes) // self.group
        return data

    def limit(self, lm: Any) -> float:
        """Return the speed-up if time went to the weights' multiplications alone."""
        shape = lm.config
        head = shape.hidden_size * shape.vocab_size * self.sampled
        trunk = sum(p.numel() for name, p in lm.named_parameters() if ".layers." in name)
        own = 256 - self.shared + self.shared / self.group
        return float((256 * trunk + head) / (own * trunk + head))


CASES = {
    "half of the ids, 4 sampled": Case(128, 512, 4),
    "half of the ids, 64 sampled": Case(128, 512, 64),
    "groups of eight, 64 sampled": Case(192, 8, 64),
    "nothing": Case(0, 1, 64),
}
"""What is shared. Few ids are sampled where a move is a word and each turn repeats the rules."""


def prefix_rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in args.sizes:
        for name_of_case, case in CASES.items():
            config = settings(args.episodes, args.micro[0])
            config.training.ppo_epochs = 1
            config.model.dtype = "bfloat16" if DEVICE == "cuda" else "float32"
            learner = Learner(prepare_lm(config.model, load(name)), config.training, config.model)
            data = case.batch(learner.lm.config.vocab_size, args.episodes)
            update = functools.partial(learner.ppo.update, data)
            whole = (
                mock.patch.multiple(Prefixes, pay=lambda *_: False),
                mock.patch.object(policy_value, "share_prefixes", return_value=None),
            )
            row: dict[str, Any] = {"model": name, "shared": name_of_case}
            row |= {"episodes": args.episodes, "limit": case.limit(learner.lm)}
            with whole[0], whole[1]:
                row["eager"] = measured(update, args.repeats)
                learner.use_cuda_graphs()
                row["whole"] = measured(update, args.repeats)
            row["once"] = measured(update, args.repeats)
            del learner, update
            free()
            row["ratio"] = row["whole"]["seconds"] / row["once"]["seconds"]
            row["over_eager"] = row["eager"]["seconds"] / row["once"]["seconds"]
            print({key: row[key] for key in ("model", "shared", "ratio", "over_eager", "limit")})
            yield row


# --- what fits ----------------------------------------------------------------------------------


KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "checkpointed": {"gradient_checkpointing": True},
    "LoRA": {"lora_rank": 16, "dtype": "bfloat16", "gradient_checkpointing": True},
}
"""How a model is trained → settings of it."""


def planned(name: str, kind: str, micro: int) -> MemoryPlan:
    asked = KINDS[kind]
    return plan_memory(
        ModelShape.of(llama(*SIZES[name])),
        micro_batch_tokens=micro,
        lora_rank=asked.get("lora_rank", 0),
        kept_bytes=2 if "dtype" in asked else 4,
        checkpointing=asked.get("gradient_checkpointing", False),
    )


def fit_rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in args.sizes:
        for kind, asked in KINDS.items():
            config = settings(args.episodes, args.micro[0])
            config.training.mini_batch_size, config.training.ppo_epochs = args.episodes, 1
            for key, wanted in asked.items():
                setattr(config.model, key, wanted)
            made = planned(name, kind, args.micro[0])
            row = {"model": name, "kind": kind, "planned_gib": made.learning / GIB}
            try:
                row |= one_update(name, config, args)
            except torch.OutOfMemoryError:
                row["fits"] = False
            free()
            print(row, flush=True)
            yield row


def one_update(name: str, config: ConfigStore, args: argparse.Namespace) -> dict[str, Any]:
    lm = prepare_lm(config.model, load(name))
    learner = Learner(lm, config.training, config.model)
    data = batch(lm.config.vocab_size, args.episodes, TURNS, PROMPT, REPLY)
    found = measured(lambda: learner.ppo.update(data), args.repeats)
    return {"fits": True, "read_tokens": args.episodes * LENGTH} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=("update", "prefix", "fits"))
    parser.add_argument("--model", help="a folder with real weights")
    parser.add_argument("--sizes", nargs="*", default=None, choices=SIZES)
    parser.add_argument("--episodes", type=int, default=None)
    parser.add_argument("--micro", type=int, nargs="+", default=[16384, 8192, 4096])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    if args.sizes is None:
        args.sizes = ["0.5B", "1.5B", "7B"] if args.part == "fits" else ["0.5B", "1.5B"]
    args.episodes = args.episodes or {"update": 64, "prefix": 1024, "fits": 16}[args.part]
    rows = []
    parts = {"update": update_rows, "prefix": prefix_rows, "fits": fit_rows}
    for row in parts[args.part](args):
        rows.append(row)
        keep(args.out, args.part, rows)  # after each, in case a later one does not finish


def keep(place: Path, part: str, rows: list[dict[str, Any]]) -> None:
    known = json.loads(place.read_text("utf-8")) if place.exists() else {}
    made = provenance(__file__, ("torch", "transformers", "torchrl"))
    if DEVICE == "cuda":
        made["machine"]["gpu"] = torch.cuda.get_device_name()
    known[part] = made | {"rows": rows}
    place.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""Record what a small chat model writes in every family of games, for the reader to be held to.

Each family is asked at the first turn of some seeds and, after one move of a random player, at
the second. The replies are kept as they came, with the state they answer, so that any later reader
can be measured on them without a model:

    python benchmarks/record_replies.py MODEL_FOLDER

Writes ``tests/core/reading/replies.jsonl``: one JSON object per reply with ``id``, ``seed``,
``moves`` (played before it) and ``reply``. Greedy for the first seed, sampled for the others.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import llm_gym  # noqa: F401  (registers the environments)
from llm_gym.registry.suite import ENVS

OUT = Path(__file__).parents[1] / "tests" / "core" / "reading" / "replies.jsonl"


def families() -> list[str]:
    """Return the first id of every game."""
    return list({row.entry_point: row.id for row in reversed(ENVS)}.values())[::-1]


def ask(env_id: str, seed: int, later: bool) -> tuple[dict[str, Any], list[dict[str, str]]] | None:
    """Return a situation and the messages that lead to it; None where the game is over by then."""
    env = gym.make(env_id)
    said = [{"role": "user", "content": env.reset(seed=seed)[0]}]
    moves: list[str] = []
    if later:
        action = env.unwrapped.random_action()
        text, _, terminated, *_ = env.step(action)
        if terminated:
            return None
        moves.append(action)
        said += [{"role": "assistant", "content": action}, {"role": "user", "content": text}]
    env.close()
    return {"id": env_id, "seed": seed, "moves": moves}, said


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=28)
    parser.add_argument("--only", help="record this id anew and keep the other replies")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    torch.manual_seed(0)
    kept = [row for row in OUT.read_text().splitlines() if args.only] if OUT.exists() else []
    kept = [row for row in kept if json.loads(row)["id"] != args.only]
    with OUT.open("w") as file:
        file.writelines(f"{row}\n" for row in kept)
        for env_id in [args.only] if args.only else families():
            for greedy in (True, False):
                seeds = range(1) if greedy else range(1, args.seeds)
                asked = [ask(env_id, seed, later) for seed in seeds for later in (False, True)]
                rows = [row for row in asked if row is not None]
                chats = [
                    tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
                    for _, said in rows
                ]
                ids = tokenizer(chats, return_tensors="pt", padding=True, add_special_tokens=False)
                made = model.generate(
                    **ids, max_new_tokens=args.tokens, do_sample=not greedy,
                    **({} if greedy else {"temperature": 0.7, "top_p": 0.95}),
                )  # fmt: skip
                for (row, _), reply in zip(rows, made[:, ids["input_ids"].shape[1] :], strict=True):
                    text = tokenizer.decode(reply, skip_special_tokens=True)
                    file.write(json.dumps({**row, "reply": text}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()

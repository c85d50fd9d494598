"""AgileRL's side of ``agilerl_train.py``: its LLM PPO on a CPU. The last line is its result.

``get_action`` writes the replies of a turn, ``learn`` takes whole episodes with a reward and an id
for each turn, as in AgileRL's own rollout training. What is trained are LoRA adapters, as always
there. ``--patched`` sets ``agilerl.HAS_LIGER_KERNEL`` to False before its algorithms are imported.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import torch
from transformers import AutoTokenizer
from transformers.utils import logging

sys.path.insert(0, str(Path(__file__).parent))
from episodes import BATCH, ENV_ID, ENV_KWARGS, MAX_TOKENS, Row

from llm_gym_agents.text.chat import ChatFormat


def agent(folder: Path, tokenizer: Any, rate: float, patched: bool) -> Any:
    """Return AgileRL's PPO over the model in ``folder``."""
    import agilerl

    if patched:
        agilerl.HAS_LIGER_KERNEL = False
    from agilerl.algorithms.ppo_llm import PPO
    from peft import LoraConfig

    return PPO(
        pad_token_id=tokenizer.pad_token_id,
        pad_token=tokenizer.pad_token,
        model_name=str(folder),
        model_config={"torch_dtype": torch.float32},
        batch_size=BATCH,
        mini_batch_size=BATCH // 2,
        micro_batch_size_per_gpu=BATCH // 2,
        update_epochs=2,
        beta=0.0,
        gamma=0.9,
        gae_lambda=0.9,
        lr_actor=rate,
        lr_critic=rate,
        max_grad_norm=0.5,
        top_k=0,
        max_output_tokens=MAX_TOKENS,
        max_model_len=128,
        lora_config=LoraConfig(r=64, lora_alpha=64, target_modules="all-linear"),
        gradient_checkpointing=False,
        use_liger_loss=not patched,
        device="cpu",
        seed=0,
    )


def play(ppo: Any, envs: list[Any], chat: ChatFormat, first: int) -> list[Row]:
    """Play a batch, everybody's turn at once."""
    rows = [Row(env, chat, first + at, told=False) for at, env in enumerate(envs)]
    for row in rows:
        row.rewards, row.turns = [], []
    going = rows
    while going:
        prompts = []
        for row in going:
            ids = torch.tensor([row.prompt + row.completion])
            prompts.append({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        answers = ppo.get_action(prompts).token_ids
        for row, answer, prompt in zip(going, answers, prompts, strict=True):
            reply = cut(answer[0, prompt["input_ids"].shape[1] :].tolist(), chat)
            before = row.score, len(row.completion)
            row.move(reply)
            row.turns += [len(row.rewards)] * len(reply)
            row.turns += [-1] * (len(row.completion) - before[1] - len(reply))
            row.rewards.append(row.score - before[0])
        going = [row for row in going if not row.done]
    return rows


def cut(reply: list[int], chat: ChatFormat) -> list[int]:
    """Return a reply up to the token that ends it, which it keeps."""
    stops = [at for at, token in enumerate(reply) if token in chat.stop_ids]
    return reply[: stops[0] + 1] if stops else reply


def learn(ppo: Any, rows: list[Row], pad: int) -> None:
    """Hand the episodes over: ids, what was written, rewards and turn ids."""
    longest = max(len(row.prompt) + len(row.completion) for row in rows)
    turns = max(len(row.rewards) for row in rows)
    ids, masks, rewards, turn_ids = [], [], [], []
    for row in rows:
        own = row.prompt + row.completion
        ids.append(torch.tensor([own + [pad] * (longest - len(own))]))
        turn = [-1] * len(row.prompt) + row.turns
        turn = (turn + [-1] * (longest - len(turn)))[1:]
        turn_ids.append(turn)
        masks.append(torch.tensor([[each >= 0 for each in turn]]))
        rewards.append(row.rewards + [0.0] * (turns - len(row.rewards)))
    ppo.learn((ids, masks, torch.tensor(rewards)), turn_ids=torch.tensor(turn_ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the model to begin with")
    parser.add_argument("--patched", action="store_true")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1e9, help="of CPU, after which it ends")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()  # it would warn at every reply
    tokenizer = AutoTokenizer.from_pretrained(args.folder)
    chat = ChatFormat.from_tokenizer(tokenizer)
    ppo = agent(args.folder, tokenizer, args.rate, args.patched)
    envs = [gym.make(ENV_ID, **ENV_KWARGS) for _ in range(BATCH)]
    curve, begun = [], process_time()
    for update in range(args.updates):
        start = process_time()
        rows = play(ppo, envs, chat, update * BATCH)
        played = process_time()
        success = sum(row.score > 0.5 for row in rows) / BATCH
        learn(ppo, rows, tokenizer.pad_token_id)
        now = process_time()
        times = {"cpu_s": now - begun, "play_s": played - start, "learn_s": now - played}
        curve.append({"updates": update + 1, "success": success} | times)
        if now - begun > args.seconds:
            break
    print(json.dumps({"side": "agilerl", "patched": args.patched, "curve": curve}))


if __name__ == "__main__":
    main()

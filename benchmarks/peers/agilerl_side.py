"""AgileRL's side of ``trl.py``: one run of its PPO for language models on a CPU, with adapters.

``get_action`` samples the replies of a turn from a padded batch. ``learn`` takes whole episodes
with a reward and an id for each turn, as in AgileRL's own rollouts. It trains only LoRA adapters,
here of rank 64; success is measured with merged weights. It has no entropy bonus. The script hides
Liger, which needs a GPU, and pretends that bitsandbytes and openenv are installed, because AgileRL
only checks their names. The last line is the result.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import agilerl
import gymnasium as gym
import torch
from peft import LoraConfig
from transformers.utils import logging

agilerl.HAS_LIGER_KERNEL, agilerl.HAS_LLM_DEPENDENCIES = False, True
from agilerl.algorithms.ppo_llm import PPO  # noqa: E402  (it reads these when imported)

from benchmarks.peers.shared import (  # noqa: E402
    BATCH,
    ENV_ID,
    ENV_KWARGS,
    Curve,
    Row,
    add_arguments,
    complete,
    padded,
    replies_in,
)
from llm_gym_agents.model.load import load_model, load_tokenizer  # noqa: E402
from llm_gym_agents.text.chat import ChatFormat  # noqa: E402


class Merged:
    """The weights of the model with the actor's adapters added; those in training stay."""

    device = torch.device("cpu")

    def __init__(self, ppo: Any, folder: str) -> None:
        self.lm, self.first = ppo.actor.pretrained_model.get_base_model(), load_model(folder)

    @torch.no_grad()
    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.first.state_dict() | {
            f"{name}.weight": part.get_base_layer().weight + part.get_delta_weight("actor")
            for name, part in self.lm.named_modules()
            if hasattr(part, "get_delta_weight")
        }


def agent(args: argparse.Namespace, tokenizer: Any, chat: ChatFormat) -> Any:
    """Return AgileRL's PPO; the discounts are those of ``llm-gym train``."""
    part = BATCH // args.parts
    ppo = PPO(
        pad_token_id=tokenizer.pad_token_id,
        pad_token=tokenizer.pad_token,
        model_name=str(args.folder),
        model_config={"dtype": torch.float32},
        batch_size=BATCH,
        mini_batch_size=part,
        micro_batch_size_per_gpu=part,
        update_epochs=args.passes,
        beta=0.0,
        gamma=0.9,
        gae_lambda=0.9,
        lr_actor=args.rate,
        lr_critic=args.rate,
        top_k=0,
        max_output_tokens=args.tokens,
        max_model_len=256,
        lora_config=LoraConfig(r=64, lora_alpha=64, target_modules="all-linear"),
        gradient_checkpointing=False,
        use_liger_loss=False,
        device="cpu",
        seed=args.seed,
    )
    ppo.generation_config.eos_token_id = list(chat.stop_ids)
    return ppo


def play(ppo: Any, rows: list[Row]) -> None:
    """Play episodes to their end, one turn of all episodes at a time."""
    while going := [row for row in rows if not row.done]:
        prompt = padded([row.prompt + row.completion for row in going], ppo.pad_token_id)
        out = ppo.get_action([prompt]).token_ids[0][:, prompt["input_ids"].shape[1] :]
        for row, reply in zip(going, replies_in(out, going[0].chat), strict=True):
            row.move(reply, [])


def learn(ppo: Any, rows: list[Row]) -> None:
    """Hand the episodes over: ids, what was written, rewards and turn ids."""
    pad = torch.nn.utils.rnn.pad_sequence
    ids = [torch.tensor(row.prompt + row.completion) for row in rows]
    turns = [torch.tensor([-1] * (len(row.prompt) - 1) + row.turns) for row in rows]
    turn_ids = pad(turns, batch_first=True, padding_value=-1)
    rewards = pad([torch.tensor(row.rewards) for row in rows], batch_first=True)
    full = pad(ids, batch_first=True, padding_value=ppo.pad_token_id)
    ppo.learn((list(full.split(1)), list((turn_ids >= 0).split(1)), rewards), turn_ids=turn_ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("agilerl",))
    add_arguments(parser)
    args = complete(parser.parse_args())
    torch.set_num_threads(1)
    logging.set_verbosity_error()  # it would warn at every reply
    tokenizer = load_tokenizer(str(args.folder))
    chat = ChatFormat.from_tokenizer(tokenizer)
    ppo = agent(args, tokenizer, chat)
    envs = [gym.make(ENV_ID, **ENV_KWARGS) for _ in range(BATCH)]
    curve = Curve(Merged(ppo, str(args.folder)), tokenizer, args)
    for first in itertools.count(args.seed * 1_000_000 + 10_000_000, BATCH):
        rows = [Row(env, chat, first + at, has_rules=False) for at, env in enumerate(envs)]
        play(ppo, rows)
        learn(ppo, rows)
        if curve.note(sum(row.success for row in rows) / BATCH):
            curve.finish()


if __name__ == "__main__":
    main()

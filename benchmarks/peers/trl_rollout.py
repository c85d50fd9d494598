"""TRL's generation on the work of ``rollout_throughput``: 8 turns of 32-token replies.

TRL has no environments to step. What its trainer calls for every turn of a multi-turn rollout is
``VLLMGeneration.generate`` on all conversations at once, after putting each whole conversation
through the chat template; this is that loop, with the same observations.

    python benchmarks/peers/trl_rollout.py --model FOLDER --envs 256 --place h200
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter

from accelerate import Accelerator
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.generation.vllm_generation import VLLMGeneration

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import provenance

RESULTS = Path(__file__).parents[1] / "results"
TURNS, REPLY = 8, 32


def play(generation: VLLMGeneration, tokenizer, envs: int) -> int:
    talks = [[] for _ in range(envs)]
    tokens = 0
    for turn in range(TURNS):
        for name, talk in enumerate(talks):
            text = f"You are player {name:6d}, turn {turn:3d}."
            talk.append({"role": "user", "content": text})
        prompts = tokenizer.apply_chat_template(
            talks, add_generation_prompt=True, tokenize=True, return_dict=True
        )["input_ids"]
        _, replies, *_ = generation.generate(prompts, None, num_generations=1)
        for talk, text in zip(talks, tokenizer.batch_decode(replies), strict=True):
            talk.append({"role": "assistant", "content": text})
        tokens += sum(map(len, replies))
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--envs", type=int, nargs="+", default=[64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=float, default=0.5, help="share of the GPU for vLLM")
    parser.add_argument("--place", help="added to the name of the result file")
    args = parser.parse_args()
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype="auto").to(accelerator.device)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    generation = VLLMGeneration(
        model,
        accelerator,
        tokenizer,
        mode="colocate",
        gpu_memory_utilization=args.memory,
        max_model_length=2048,
        max_num_seqs=max(args.envs),
        max_completion_length=REPLY,
        generation_kwargs={"ignore_eos": True},
    )
    rows = []
    for envs in args.envs:
        play(generation, tokenizer, envs)
        took = []
        for _ in range(args.repeats):
            generation.llm.reset_prefix_cache()
            start = perf_counter()
            tokens = play(generation, tokenizer, envs)
            took.append(perf_counter() - start)
        rows.append({"envs": envs, "tokens_per_s": round(tokens / statistics.median(took))})
    made = {**provenance(__file__, ("torch", "trl", "vllm")), "args": vars(args), "rows": rows}
    name = "_".join(filter(None, ("rollout_trl", args.place)))
    (RESULTS / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made))


if __name__ == "__main__":
    main()

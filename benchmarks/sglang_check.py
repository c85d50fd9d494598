"""SGLang end to end on a GPU: generation, log-probs, weight update, and the probe.

    python benchmarks/sglang_check.py --model FOLDER --place h200

Writes ``benchmarks/results/sglang_check[_PLACE].json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

import torch
from machine import provenance

from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from llm_gym_agents.engines.weight_check import Probe, StaleWeightsError
from llm_gym_agents.learn.publish import Publisher
from llm_gym_agents.model.load import load_model, load_tokenizer

RESULTS = Path(__file__).parent / "results"
# What a server without flashinfer and CUDA headers needs.
ARGUMENTS = (
    "--attention-backend triton --sampling-backend pytorch --grammar-backend none "
    "--disable-cuda-graph --mem-fraction-static 0.3"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--arguments", default=ARGUMENTS, help="for SGLang's own command line")
    parser.add_argument("--place", help="added to the name of the result file")
    args = parser.parse_args()
    lm, tokenizer = load_model(args.model, dtype=args.dtype), load_tokenizer(args.model)
    start = perf_counter()
    engine = SGLangEngine(
        args.model, tokenizer=tokenizer, dtype=args.dtype, max_model_len=4096,
        arguments=args.arguments.split(),
    )  # fmt: skip
    found = {"start_s": round(perf_counter() - start, 1)}
    prompt = tokenizer("The capital of France is")["input_ids"]
    greedy = engine.generate([Request(prompt, Sampling(max_tokens=8, temperature=0))])[0]
    found["greedy"] = tokenizer.decode(greedy.ids)
    start = perf_counter()
    asked = [Request(prompt, Sampling(max_tokens=32), seed=seed) for seed in range(128)]
    tokens = sum(len(done.ids) for done in engine.generate(asked))
    found["tokens_per_s_at_128"] = round(tokens / (perf_counter() - start))
    probe, publisher = Probe(lm), Publisher(engine, lm)
    found["gap"] = round(probe.gap(engine), 4)
    found["publish"] = publisher.publish(1)
    with torch.no_grad():
        for name, weight in lm.named_parameters():
            if name.endswith("down_proj.weight"):
                weight.mul_(0.5)
    try:
        probe.check(engine)
        found["stale_noticed"] = False
    except StaleWeightsError as error:
        found["stale_noticed"], found["stale_sentence"] = True, str(error)
    found["publish_again"] = publisher.publish(2)
    engine.close()
    made = {**provenance(__file__, ("torch", "transformers")), "args": vars(args), **found}
    name = "_".join(filter(None, ("sglang_check", args.place)))
    (RESULTS / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made))


if __name__ == "__main__":
    main()

"""How much of a bare engine's speed is left when it plays environments.

N text environments are played for 8 turns of 32-token replies through pool, policy and TorchRL's
collector. Of that time, what the engine spent on its requests is the limit: ``share`` is their
ratio, and what is left is our own time per turn. Beside it, the very same requests are handed
to the engine and nothing else, in turn with the playing and with the same prefix cache
(``ratio``); that is two runs, so it is as noisy as the machine.

    python benchmarks/rollout_throughput.py
    python benchmarks/rollout_throughput.py --envs 64 --repeats 5

Prints a table and writes ``benchmarks/results/rollout_throughput.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import torch
from machine import provenance

from llm_gym.spaces import AnyText
from llm_gym_agents.build import tiny_llama
from llm_gym_agents.chat import ChatFormat
from llm_gym_agents.collect import EpisodeCollector
from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.transformers_engine import TransformersEngine
from llm_gym_agents.policy import LLMPolicy
from llm_gym_agents.pool import TextEnvPool
from llm_gym_agents.tasks import EpisodeTask
from llm_gym_agents.tokenizers import byte_tokenizer

RESULT = Path(__file__).parent / "results" / "rollout_throughput.json"
TURNS, REPLY = 8, 32


class Metronome(gym.Env[str, str]):
    """Eight turns, each with an observation of some 32 characters."""

    observation_space = action_space = AnyText(100_000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.name = 0, seed
        return f"You are player {seed:6d}, turn {0:3d}.", {}

    def step(self, action: str):
        self.turn += 1
        text = f"You are player {self.name:6d}, turn {self.turn:3d}."
        return text, 0.0, self.turn == TURNS, False, {}


class Recorder(TransformersEngine):
    """The engine, noting what it is asked and how long it takes."""

    def generate(self, requests):
        self.asked.append(list(requests))
        start = perf_counter()
        done = super().generate(requests)
        self.busy += perf_counter() - start
        return done


def build(envs: int, hidden: int, layers: int) -> tuple[EpisodeCollector, Recorder]:
    tokenizer = byte_tokenizer()
    model = tiny_llama(tokenizer, hidden_size=hidden, layers=layers, context_length=2048).eval()
    engine = Recorder(model, end_ids=())
    engine.asked, engine.busy = [], 0.0
    chat = ChatFormat.from_tokenizer(tokenizer, kind="plain")
    chat.stop_ids = ()  # every reply has its full length, whatever the model says
    policy = LLMPolicy(engine, chat, sampling=Sampling(max_tokens=REPLY))
    return EpisodeCollector(TextEnvPool(Metronome, envs), policy), engine


def forget(engine: Recorder, version: int) -> None:
    """Empty the prefix cache, as a weight update between two batches does."""
    engine.update_weights(engine.model.named_parameters(), version)


def measure(envs: int, repeats: int, hidden: int, layers: int) -> dict:
    collector, engine = build(envs, hidden, layers)
    tasks = [EpisodeTask(at, at) for at in range(envs)]
    collector.play(tasks)  # warm-up: shapes, caches, lazy imports
    playing, busy, bare = [], [], []
    for repeat in range(repeats):
        forget(engine, 2 * repeat)
        engine.asked, engine.busy = [], 0.0
        start = perf_counter()
        _, tokens = collector.play(tasks)
        playing.append(perf_counter() - start)
        busy.append(engine.busy)
        batches: list[list[Request]] = [batch for batch in engine.asked if batch]
        forget(engine, 2 * repeat + 1)
        start = perf_counter()
        for batch in batches:
            TransformersEngine.generate(engine, batch)
        bare.append(perf_counter() - start)
    collector.close()
    own = statistics.median(p - b for b, p in zip(busy, playing, strict=True))
    return {
        "envs": envs,
        "tokens": tokens,
        "tokens_per_s": round(tokens / statistics.median(playing)),
        "bare_tokens_per_s": round(tokens / statistics.median(bare)),
        "share": _median_ratio(busy, playing),
        "ratio": _median_ratio(bare, playing),
        "own_us_per_turn": round(own / (envs * TURNS) * 1e6, 1),
    }


def _median_ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=128, help="width of the model")
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    rows = [measure(envs, args.repeats, args.hidden, args.layers) for envs in args.envs]
    print(
        f"{'envs':>5}{'tokens/s':>11}{'bare engine':>13}{'ratio':>8}{'share':>8}{'own µs/turn':>13}"
    )
    for row in rows:
        print(
            f"{row['envs']:>5}{row['tokens_per_s']:>11,}{row['bare_tokens_per_s']:>13,}"
            f"{row['ratio']:>8.3f}{row['share']:>8.3f}{row['own_us_per_turn']:>13,.1f}"
        )
    about = provenance(__file__, ("torch", "torchrl", "transformers"))
    made = {**about, "args": vars(args), "rows": rows}
    RESULT.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made))


if __name__ == "__main__":
    main()

"""How much of a bare engine's speed is left when it plays environments.

N text environments are played for 8 turns of 32-token replies through pool, policy and TorchRL's
collector. In turn with this, the same requests go to the bare engine with the same prefix cache,
each turn as soon as the last one is answered: this is the limit (``ratio``). For vLLM the bare
engine is vLLM's own. ``share`` is the engine's part of the playing time; the rest is our overhead.

The last row has replies of uneven length (one in eight is 256 tokens, the others 8) and compares
stepping each environment when its reply is ready with waiting for all replies.

    python -m benchmarks.play.throughput
    python -m benchmarks.play.throughput --engine vllm --envs 64
    python -m benchmarks.play.throughput --engine vllm --model FOLDER --envs 256 --place h200

Prints rows of JSON and writes ``benchmarks/results/rollout_ENGINE[_PLACE].json``.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import os
import statistics
import tempfile
from time import perf_counter
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import torch

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym.core.spaces import AnyText
from llm_gym_agents.engines.base import Engine, Request, Sampling
from llm_gym_agents.engines.load import load_engine
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import byte_tokenizer

TURNS, REPLY = 8, 32
LONG, SHORT, ONE_IN = 256, 8, 8


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


class UnevenPolicy(LLMPolicy):
    """Asks for some long replies, at the same places in every run."""

    def _request(self, episode: int, pattern: str | None) -> Request | None:
        made = super()._request(episode, pattern)
        assert made is not None
        sampling = Sampling(max_tokens=SHORT if made.seed % ONE_IN else LONG)
        return Request(made.prompt, sampling, made.seed, made.key)


class Recorder:
    """Records the requests to an engine and their times."""

    def __init__(self, engine: Engine) -> None:
        self.busy, self.chains = 0.0, {}
        self._submit, self._poll = engine.submit, engine.poll
        engine.submit, engine.poll = self.submit, self.poll  # type: ignore[method-assign]
        self.engine = engine

    def submit(self, requests):
        requests = list(requests)
        for request in requests:
            self.chains.setdefault(request.key, []).append(request)
        start = perf_counter()
        self._submit(requests)
        self.busy += perf_counter() - start

    def poll(self, timeout=None):
        start = perf_counter()
        done = self._poll(timeout)
        self.busy += perf_counter() - start
        for reply in done:
            chain = self.chains[reply.key]
            length = dataclasses.replace(chain[-1].sampling, max_tokens=len(reply.ids))
            chain[-1] = dataclasses.replace(chain[-1], sampling=length)
        return done

    def stop(self) -> dict[object, list[Request]]:
        """Stop recording; return each episode's requests, with the reply's length as limit."""
        del self.engine.submit, self.engine.poll
        return self.chains


def bare(engine: Engine, chains: dict[object, list[Request]]) -> None:
    """Send each request as soon as the one before it is answered."""
    if hasattr(engine, "_vllm"):
        return bare_vllm(engine._vllm, chains)
    waiting = {key: iter(chain) for key, chain in chains.items()}
    engine.submit([next(chain) for chain in waiting.values()])
    while engine.running:
        following = (next(waiting[done.key], None) for done in engine.poll())
        engine.submit([request for request in following if request is not None])


def bare_vllm(vllm: Any, chains: dict[object, list[Request]]) -> None:
    """Do the same with vLLM's own engine; every reply has the requested length."""
    from llm_gym_agents.engines.vllm.runtime import parameters

    llm, salt = vllm.llm_engine, str(vllm.salt)
    waiting = {str(key): iter(chain) for key, chain in chains.items()}

    def add(key: str) -> bool:
        request = next(waiting[key], None)
        if request is None:
            return False
        sampling = dataclasses.replace(request.sampling, max_tokens=1)  # one is cached for all
        made = copy.copy(parameters(sampling, limit=1, ends=frozenset(), streamed=False))
        made.seed, made.max_tokens = request.seed, request.sampling.max_tokens
        llm.add_request(key, {"prompt_token_ids": list(request.prompt), "cache_salt": salt}, made)
        return True

    running = sum(add(key) for key in waiting)
    while running:
        for output in llm.step():
            if output.finished:
                running -= not add(output.request_id)


def build(engine: Engine, tokenizer: Any, envs: int, kind: type[LLMPolicy], sync_replies: bool):
    chat = ChatFormat.from_tokenizer(tokenizer)
    chat.stop_ids = ()  # every reply has its full length, whatever the model says
    policy = kind(engine, chat, sampling=Sampling(max_tokens=REPLY), sync_replies=sync_replies)
    return EpisodeCollector(TextEnvPool(Metronome, envs), policy)


def forget(engine: Engine) -> None:
    """Empty the prefix cache, as a weight update between two batches does."""
    if hasattr(engine, "_vllm"):
        engine._vllm.salt += 1  # as an update does
    else:
        engine.update_weights(engine.model.named_parameters(), engine.version)


def measure(engine: Engine, tokenizer: Any, envs: int, repeats: int, sync_replies: bool) -> dict:
    collector = build(engine, tokenizer, envs, LLMPolicy, sync_replies)
    tasks = [EpisodeTask(at, at) for at in range(envs)]
    collector.collect(tasks)  # warm-up: shapes, caches, lazy imports
    playing, busy, alone = [], [], []
    for _ in range(repeats):
        forget(engine)
        recorder = Recorder(engine)
        start = perf_counter()
        tokens = collector.collect(tasks).tokens
        playing.append(perf_counter() - start)
        busy.append(recorder.busy)
        chains = recorder.stop()
        forget(engine)
        start = perf_counter()
        bare(engine, chains)
        alone.append(perf_counter() - start)
    own = statistics.median(p - b for b, p in zip(busy, playing, strict=True))
    return {
        "envs": envs,
        "sync_replies": sync_replies,
        "tokens": tokens,
        "tokens_per_s": round(tokens / statistics.median(playing)),
        "bare_tokens_per_s": round(tokens / statistics.median(alone)),
        "share": _median_ratio(busy, playing),
        "ratio": _median_ratio(alone, playing),
        "own_us_per_turn": round(own / (envs * TURNS) * 1e6, 1),
    }


def measure_uneven(engine: Engine, tokenizer: Any, envs: int, repeats: int) -> dict:
    """Play uneven replies with and without sync_replies, in turns."""
    collectors = {
        sync_replies: build(engine, tokenizer, envs, UnevenPolicy, sync_replies)
        for sync_replies in (True, False)
    }
    tasks = [EpisodeTask(at, at) for at in range(2 * envs)]
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for sync_replies, collector in collectors.items():
            forget(engine)
            start = perf_counter()
            tokens = collector.collect(tasks).tokens
            took[sync_replies].append(perf_counter() - start)
    return {
        "envs": envs,
        "tokens": tokens,
        "lock_step_tokens_per_s": round(tokens / statistics.median(took[True])),
        "tokens_per_s": round(tokens / statistics.median(took[False])),
        "speed_up": _median_ratio(took[True], took[False]),
    }


def _median_ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)


def make_engine(args: argparse.Namespace) -> tuple[Engine, Any]:
    settings = json.loads(args.settings)
    if args.model is not None:
        engine, tokenizer = load_engine(args.model, args.engine, settings)
    else:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = byte_tokenizer()
            model = tiny_llama(tokenizer, hidden_size=128, context_length=4096)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            engine, tokenizer = load_engine(folder, args.engine, settings)
    engine.end_ids = frozenset()
    return engine, tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("transformers", "vllm"), default="transformers")
    parser.add_argument("--model", help="a folder; by default a small model with random weights")
    parser.add_argument("--settings", default="{}", help="of the engine, as JSON")
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--place", help="added to the name of the result file")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    engine, tokenizer = make_engine(args)
    sync_replies = args.engine == "transformers"
    rows = [measure(engine, tokenizer, envs, args.repeats, sync_replies) for envs in args.envs]
    uneven = measure_uneven(engine, tokenizer, max(args.envs), max(1, args.repeats // 2))
    engine.close()
    packages = ("torch", "torchrl", "transformers", *(["vllm"] if args.engine == "vllm" else []))
    made = {**provenance(__file__, packages), "args": vars(args), "rows": rows, "uneven": uneven}
    name = "_".join(filter(None, ("rollout", args.engine, args.place)))
    (RESULTS / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    for row in (*rows, uneven):
        print(json.dumps(row))


if __name__ == "__main__":
    main()

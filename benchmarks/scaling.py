"""How far one learner's process carries: measured here, predicted beyond.

Measured on this machine with real Ray actors: what a lot of episodes costs to hand out and to take
in, by its size; what weights cost to reach every actor, by their size; what 1, 2, ... real players
play together; and what many actors that sleep instead of playing come to. ``simulate_scale`` is fed
with the first numbers, has to predict the last one, and is then asked about clusters that are not
here, whose cards are assumed (``CARD``) and not measured.

    python benchmarks/scaling.py                   # needs ray: pip install "llm-gym[ray]"
    python benchmarks/scaling.py --samplers 1 2 4 8 --out scaling.json

Writes ``benchmarks/results/scaling.json``, each part as it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import statistics
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np

try:
    import ray
except ImportError:  # --help needs none
    ray = None
from machine import provenance
from simulate_scale import Costs, as_row, simulate

RESULTS = Path(__file__).parent / "results"
ENV = "llm_gym/TextGameEasy-v0"
ROOT = Path(__file__).parents[1]
SLEEP_S, SPREAD = 0.4, 0.3
"""Of a sleeping actor: the mean of a lot, and the standard deviation of its logarithm."""
CARD = {
    "bandwidth": 4.8e12,
    "flops": 0.35 * 989e12,
    "network": 25e9,
    "lot": 64,
    "prompt": 512,
    "reply": 512,
}
"""What a card is taken to do: bytes a second of memory, arithmetic of an update at an MFU of 0.35,
bytes a second to another machine; and episodes of a lot, and their tokens."""
MODELS = {"0.5B": 0.5e9, "7B": 7.6e9, "32B": 32e9, "70B": 70e9}


def episodes(count: int, tokens: int) -> bytes:
    """Return a lot of episodes as it travels: ids and log-probs of every sampled token."""
    from llm_gym.episodes import Trajectory
    from llm_gym_agents.rollouts.turns import Rollout, Turn

    draw = random.Random(0)

    def ids() -> list[int]:
        return [draw.randrange(150_000) for _ in range(tokens)]

    def log_probs() -> list[float]:
        return [draw.random() for _ in range(tokens)]

    # None of them the same object twice: what is pickled once would cost nothing.
    turns = [[Turn(at, 0, ids(), ids(), log_probs(), "stop", 0)] for at in range(count)]
    played = [
        Trajectory(
            states=[f"{at}" + "x" * 4 * tokens, f"{at}."],
            actions=[f"{at}" + "y" * 4 * tokens],
            rewards=[1.0],
        )
        for at in range(count)
    ]
    return pickle.dumps(Rollout(played, turns, [None] * count, [], []))


class Sleeper:
    """An actor that sleeps for as long as it is told, and answers with a lot of episodes."""

    def play(self, seconds: float, parcel: bytes | None = None) -> Any:
        sleep(seconds)
        return None if parcel is None else pickle.loads(parcel)

    def take(self, weights: Any) -> int:
        return int(weights.nbytes)


class Player:
    """A real ``Sampler`` with a model of its own."""

    def __init__(self, rows: int) -> None:
        import torch

        from llm_gym_agents import ConfigStore
        from llm_gym_agents.build import build_lm, build_sampler

        torch.set_num_threads(1)
        config = ConfigStore()
        config.environment.env_id, config.environment.env_kwargs = ENV, {"rules": "system"}
        config.inference.num_envs = config.training.batch_size = rows
        config.inference.max_tokens = 16
        lm, tokenizer = build_lm(config, ENV)
        self.sampler = build_sampler(config, lm, tokenizer, ENV)

    def play(self, first: int, count: int) -> int:
        from llm_gym_agents.rollouts.tasks import EpisodeTask

        tasks = [EpisodeTask(at, at, at, None) for at in range(first, first + count)]
        return self.sampler.play(tasks).tokens


def lot_costs(count: int, tokens: int, repeats: int) -> dict[str, float]:
    """Return what a lot of so many episodes costs the process that deals it out."""
    actor = ray.remote(num_cpus=0)(Sleeper).remote()
    parcel = ray.put(episodes(count, tokens))
    size = len(ray.get(parcel))
    ray.get(actor.play.remote(0.0, parcel))
    deal, take, trip = [], [], []
    for _ in range(repeats):
        start = perf_counter()
        coming = actor.play.remote(0.0, parcel)
        dealt = perf_counter()
        ray.wait([coming])
        there = perf_counter()
        ray.get(coming)
        done = perf_counter()
        deal.append(dealt - start)
        trip.append(there - dealt)
        take.append(done - there)
    ray.kill(actor)
    found = {"deal_s": deal, "latency_s": trip, "take_s": take}
    return {"bytes": size} | {name: statistics.median(each) for name, each in found.items()}


def broadcast_costs(megabytes: int, actors: int, repeats: int) -> float:
    """Return the median seconds until every actor has so many megabytes."""
    made = [ray.remote(num_cpus=0)(Sleeper).remote() for _ in range(actors)]
    weights = np.ones(megabytes << 18, dtype=np.float32)
    ray.get([actor.take.remote(weights[:1]) for actor in made])
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        there = ray.put(weights)
        ray.get([actor.take.remote(there) for actor in made])
        seconds.append(perf_counter() - start)
        del there
    for actor in made:
        ray.kill(actor)
    return statistics.median(seconds)


def real_players(count: int, lots: int) -> dict[str, float]:
    """Return tokens a second of so many real samplers, which play lots as they come."""
    made = [ray.remote(num_cpus=1)(Player).remote(16) for _ in range(count)]
    ray.get([actor.play.remote(0, 16) for actor in made])
    start, tokens = perf_counter(), 0
    running = {actor.play.remote(100 + 16 * at, 16): actor for at, actor in enumerate(made)}
    dealt = len(made)
    while running:
        [done], _ = ray.wait(list(running))
        actor = running.pop(done)
        tokens += ray.get(done)
        if dealt < lots:
            running[actor.play.remote(100 + 16 * dealt, 16)] = actor
            dealt += 1
    seconds = perf_counter() - start
    for actor in made:
        ray.kill(actor)
    return {"seconds": round(seconds, 3), "tokens_per_s": round(tokens / seconds, 1)}


def sleeping(actors: int, lots: int, iterations: int, costs: Costs, parcel_of: int) -> float:
    """Return lots a second of actors that sleep, driven as players are."""
    made = [ray.remote(num_cpus=0)(Sleeper).remote() for _ in range(actors)]
    draw = random.Random(1)
    mean = np.log(costs.play_s) - costs.spread**2 / 2
    weights = np.ones(1 << 18, dtype=np.float32)
    parcel = ray.put(episodes(parcel_of, 64))
    ray.get([actor.play.remote(0.0, parcel) for actor in made])
    start = perf_counter()
    for _ in range(iterations):
        left = [draw.lognormvariate(mean, costs.spread) for _ in range(lots)]
        running = {actor.play.remote(left.pop(), parcel): actor for actor in made[:lots]}
        while running:
            [done], _ = ray.wait(list(running))
            actor = running.pop(done)
            ray.get(done)
            if left:
                running[actor.play.remote(left.pop(), parcel)] = actor
        sleep(costs.learn_s)
        there = ray.put(weights)
        ray.get([actor.take.remote(there) for actor in made])
    seconds = perf_counter() - start
    for actor in made:
        ray.kill(actor)
    return lots * iterations / seconds


def beyond(lot: dict[str, float], staleness: int) -> list[dict[str, Any]]:
    """Return what clusters of assumed cards come to, by the simulation."""
    rows = []
    for name, weights in MODELS.items():
        cards = max(1, round(2 * weights / 60e9 + 0.5))  # a player's weights in 16 bits, with room
        step = 2 * weights / (cards * CARD["bandwidth"]) + 2e-3
        play_s = CARD["reply"] * step
        tokens = CARD["lot"] * (CARD["prompt"] + CARD["reply"])
        for players in (64, 512, 4096):
            learners = max(8, players * cards // 4)
            learn_s = 8 * weights * tokens * players / (learners * CARD["flops"])
            # A ring or tree of machines: every byte crosses each link once, hops overlap.
            broadcast_s = 2 * weights / CARD["network"] + 0.05 * np.log2(players)
            costs = Costs(
                deal_s=lot["deal_s"],
                take_s=lot["take_s"],
                latency_s=lot["latency_s"],
                play_s=play_s,
                spread=SPREAD,
                learn_s=learn_s,
                broadcast_s=float(broadcast_s),
            )
            found = simulate(costs, players=players, lots=players, staleness=staleness)
            row = {"model": name, "players": players, "cards_per_player": cards}
            row |= {"learner_cards": learners, "staleness": staleness, **as_row(found)}
            row["tokens_per_s"] = round(found.lots_per_s * CARD["lot"] * CARD["reply"])
            rows.append(row)
    return rows


def predicted(args: argparse.Namespace, lot: dict[str, float]) -> dict[str, Any]:
    """Let the simulation predict the sleeping actors, then let them sleep."""
    costs = Costs(
        deal_s=lot["deal_s"],
        take_s=lot["take_s"],
        latency_s=lot["latency_s"],
        play_s=SLEEP_S,
        spread=SPREAD,
        learn_s=0.2,
        broadcast_s=broadcast_costs(1, args.sleepers, 3),
    )
    lots = 4 * args.sleepers
    said = [
        simulate(costs, players=args.sleepers, lots=lots, iterations=3, seed=seed).lots_per_s
        for seed in range(16)
    ]
    real = sleeping(args.sleepers, lots, 3, costs, parcel_of=8)
    guess = statistics.mean(said)
    return {
        "actors": args.sleepers,
        "predicted_lots_per_s": round(guess, 2),
        "measured_lots_per_s": round(real, 2),
        "off_by": round(guess / real - 1, 4),
    }


def main() -> None:
    """Measure, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sleepers", type=int, default=32)
    parser.add_argument("--lots", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling.json")
    args = parser.parse_args()
    if ray is None:
        sys.exit('scaling.py needs ray: pip install "llm-gym[ray]"')
    sources = {"PYTHONPATH": os.pathsep.join((str(ROOT / "agents"), str(ROOT), *sys.path[1:]))}
    ray.init(
        num_cpus=max([*args.samplers, 2]),
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": sources | {"OMP_NUM_THREADS": "1"}},
    )
    result: dict[str, Any] = {**provenance(__file__, ["ray", "torch"]), "card": CARD}

    def keep(name: str, value: Any) -> None:
        result[name] = value
        args.out.write_text(json.dumps(result, indent=1) + "\n")
        print(name, json.dumps(value), flush=True)

    sizes = [(8, 64), (64, 64), (64, 512)]
    lots = {f"{n} x {t}": lot_costs(n, t, args.repeats) for n, t in sizes}
    keep("lots", lots)
    keep("sleeping", predicted(args, lots["8 x 64"]))
    sent = {f"{mb} MB": broadcast_costs(mb, 2, 5) for mb in (1, 16, 64, 256)}
    keep("broadcast_to_2_s", sent)
    keep("beyond", [row for k in (0, 1) for row in beyond(lots["64 x 512"], k)])
    keep("players", {str(n): real_players(n, args.lots) for n in args.samplers})
    ray.shutdown()


if __name__ == "__main__":
    main()

"""How near does each estimator come to the true advantage of a turn, before and after training?

    python -m benchmarks.learn.credit --lanes 16                                   # ten games
    python -m benchmarks.learn.credit --only FrozenLake --flags " " "--model.critic separate"
    python -m benchmarks.learn.credit --model FOLDER --iterations 15 --lanes 4     # on a GPU

Each run is PPO with a critic, as in ``llm-gym train ID``. Only the warm start differs: it imitates
random moves if the solver's moves leave nothing to learn. ``llm-gym eval --credit`` is applied
after the warm start and at the end. Rows are written as they come; a stopped script continues.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import torch

from benchmarks.learn.learning_run import settings
from benchmarks.learn.tables import correlations
from benchmarks.lib.lanes import Job, Results, calling, first_gpu, work
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents import PPOTrainer
from llm_gym_agents.commands.credit import credit as judge
from llm_gym_agents.rollouts.pack import Packer

RESULT, MODEL_RESULT = RESULTS / "credit.json", RESULTS / "credit_model.json"
RUN = "benchmarks.learn.credit"
GAMES = {
    "MazeEasy": "solver", "MinesweeperEasy": "solver", "WordleEasy": "solver",
    "SokobanEasy": "solver", "FrozenLake": "random", "TextGameEasy": "random",
    "CoinCollectorEasy": "random", "FifteenPuzzleEasy": "random", "MastermindEasy": "random",
    "GuessTheNumberEasy": "random",
}  # fmt: skip
"""Game → player whose moves are imitated first, so that some but not all episodes are won."""


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    """Yield a run of each game with each of ``args.flags``, seed by seed."""
    model = ["--model.model-name", args.model] if args.model else []
    for seed, game, flags in product(args.seeds, args.only, args.flags):
        numbers = map(str, (seed, args.iterations, args.branches, args.turns))
        player = ("--warm-start.player", GAMES.get(game, "auto"))
        command = calling(RUN, game, *numbers, *player, *model, *flags.split())
        environ = first_gpu() if args.model else None
        yield Job(f"{game}/{seed} {flags}".strip(), command, 7200.0, environ)


def judged(trainer: PPOTrainer, branches: int, turns: int) -> dict[str, Any]:
    """Return the judge's measures of the current policy and critic."""
    config, ppo = trainer.config, trainer.learner.ppo
    report, _ = judge(
        str(config.environment.env_id),
        trainer.sampler.policy,
        config.training,
        episodes=128,
        branches=branches,
        turns=turns,
        num_envs=max(64, config.inference.num_envs),
        max_turns=config.inference.max_turns,
        env_kwargs=config.environment.env_kwargs,
        critic=lambda data: ppo.stabilizers.unscale(ppo.scorer.score(Packer(data))),
    )
    return asdict(report)


def result(arguments: Sequence[str]) -> dict[str, Any]:
    game, seed, iterations, branches, turns, *flags = arguments
    torch.set_num_threads(1)
    config = settings(game, int(seed), "gae", flags)
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, int(iterations)
    config.environment.eval_interval = 0
    start = process_time()
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config)
        try:
            trainer.warm_up()
            before = judged(trainer, int(branches), int(turns))
            explained = [row["value/explained_variance"] for row in trainer.fit()]
            after = judged(trainer, int(branches), int(turns))
        finally:
            trainer.cleanup()
    return {
        "game": game,
        "seed": int(seed),
        "before": before,
        "after": after,
        "explained_in_training": explained,
        "cpu_s": round(process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", default=list(GAMES), help="games")
    parser.add_argument("--iterations", type=int, default=40, help="of training in between")
    parser.add_argument("--branches", type=int, default=32, help="from each state")
    parser.add_argument("--turns", type=int, default=64, help="that are judged")
    parser.add_argument("--flags", nargs="+", default=[""], help="settings to try")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--model", help="a model folder, on a GPU; the embedded one by default")
    parser.add_argument("--results", type=Path, help="where rows are kept")
    args = parser.parse_args()
    packages = ("torch", "torchrl", "transformers", "gymnasium")
    about = provenance(__file__, packages, seeds=args.seeds)
    place = args.results or (MODEL_RESULT if args.model else RESULT)
    results = Results(place, {"provenance": about})
    deadline = monotonic() + 60 * args.minutes
    work(list(jobs(args)), results, lanes=args.lanes, deadline=deadline)
    for stage in ("before", "after"):
        print(stage, json.dumps(correlations(results.rows, stage)))


if __name__ == "__main__":
    main()

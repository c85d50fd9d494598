"""What players score in every environment of the suite: the built-in ones, or a model.

Without ``--model`` it measures the random player, the reflex, the solver and the oracle and writes
``llm_gym/evaluate/scores.json``. Run it again for a new environment or version. Runs with different
``--only`` may run at the same time.

With ``--model`` the model plays the suite, as with ``llm-gym eval --suite``, but several games at a
time and with a limit of minutes. Rows and their mean go to ``benchmarks/results/suite_NAME.json``.

    python -m benchmarks.envs.suite_scores
    python -m benchmarks.envs.suite_scores --episodes 100 --only Guess
    python -m benchmarks.envs.suite_scores --model Qwen/Qwen3-0.6B --engine vllm --episodes 50
    python -m benchmarks.envs.suite_scores --model FOLDER --engine vllm --minutes 4 --out mine.json

One id of each game comes first, so that ``--minutes`` leaves out levels and no game; the same
command continues later. On a GPU, ``--together 16 --num-envs 256`` plays 16 environments at once.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from benchmarks.lib.machine import RESULTS, ROOT, provenance
from llm_gym.cli.common import settings
from llm_gym.evaluate.result import Evaluation
from llm_gym.evaluate.scores import PLAYERS, Score, measure, published
from llm_gym.registry.suite import ENVS

if TYPE_CHECKING:
    from llm_gym_agents.rollouts.policy import LLMPolicy

SCORES = ROOT / "llm_gym" / "evaluate" / "scores.json"


def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    ids = [row.id for row in ENVS if args.only in row.id]
    if not ids:
        raise SystemExit(f"no environment of the suite has {args.only!r} in its id")
    if args.model is None:
        for env_id in ids:
            players = args.players or list(PLAYERS)
            env = gym.make(env_id)
            row = {
                player: [round(value, 4) for value in measure(env, player, args.episodes or 1000)]
                for player in players
            }
            save_scores(SCORES, {env_id: row})
            shown = "  ".join(f"{player} {score[0]:.3f}" for player, score in row.items())
            print(f"{env_id:<36}{shown}", flush=True)
    else:
        play_suite(args, ids)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--episodes", type=int, help="per player: 1000, or 50 for a model")
    made.add_argument("--only", default="", help="only ids that contain this; keep the others")
    made.add_argument("--players", nargs="+", choices=PLAYERS, help="only these; keep the others")
    made.add_argument("--model", help="a model folder or hub name, instead of the built-in players")
    made.add_argument("--engine", default="transformers", help="transformers, vllm or sglang")
    made.add_argument("--engine-set", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--name", help="of the result file; the model's own unless given")
    made.add_argument("--out", type=Path, help="another file to write the model's rows to")
    made.add_argument("--minutes", type=float, default=1e9, help="after which no game is begun")
    made.add_argument("--num-envs", type=int, default=32, help="episodes played side by side")
    made.add_argument("--together", type=int, default=1, help="environments played side by side")
    made.add_argument("--seed", type=int, default=0, help="seed of the first episode")
    made.add_argument("--max-tokens", type=int, default=64, help="most tokens of a reply")
    made.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    made.add_argument("--context", choices=("history", "observation"), default="history")
    return made


@cache
def game(env_id: str) -> tuple[str, int]:
    """Return the description and the turns for ``llm-gym list``."""
    env: Any = gym.make(env_id).unwrapped
    return type(env).__doc__.strip().partition("\n")[0], env.max_turns


def save_scores(path: Path, rows: Mapping[str, Any]) -> None:
    """Add ``rows`` to the file, and drop rows of ids that no longer exist."""
    path.touch()
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed: another run may be about to write
        text = file.read()
        known = json.loads(text)["scores"] if text else {}
        for env_id, row in rows.items():  # of a player that was not measured the score stays
            found = {**known.get(env_id, {}), **row}
            known[env_id] = {player: found[player] for player in PLAYERS if player in found}
        made = {
            "command": "python -m benchmarks.envs.suite_scores",
            "fields": list(Score._fields),
            "scores": {row.id: known[row.id] for row in ENVS if row.id in known},
            "games": {row.id: game(row.id) for row in ENVS},
        }
        file.seek(0)
        file.write(json.dumps(made, indent=1) + "\n")
        file.truncate()


def play_suite(args: argparse.Namespace, ids: Sequence[str]) -> None:
    """Let the model play, print the table, and keep the result file up to date meanwhile."""
    from llm_gym_agents.engines.base import Sampling
    from llm_gym_agents.rollouts.policy import LLMPolicy

    policy = LLMPolicy.from_pretrained(
        args.model,
        engine=args.engine,
        config=settings(args.engine_set, "--engine-set"),
        context=args.context,
        sampling=Sampling(max_tokens=args.max_tokens, temperature=args.temperature),
        run_seed=args.seed,
    )
    name = re.sub(r"[^\w.-]+", "-", args.name or Path(args.model).name)
    path = args.out or RESULTS / f"suite_{name}.json"
    packages = ["torch", "transformers", *({args.engine} - {"transformers"})]
    asked = {name: str(v) if isinstance(v, Path) else v for name, v in vars(args).items()}
    made = {**provenance(__file__, packages), "args": asked}
    rows = played_before(path, asked)
    todo = [env_id for env_id in plain_first(ids) if env_id not in {row["env"] for row in rows}]
    deadline = monotonic() + 60 * args.minutes
    for first in range(0, len(todo), args.together):
        if monotonic() > deadline:
            break
        some, episodes = todo[first : first + args.together], args.episodes or 50
        for result in play_together(some, policy, episodes, num_envs=args.num_envs, seed=args.seed):
            print(result, flush=True)
            rows.append(result.summary())
        made |= {"rows": rows, "mean": suite_mean(rows)}
        path.write_text(json.dumps(made, indent=1) + "\n")
    if rows:
        print(f"{json.dumps(suite_mean(rows))}\n{os.path.relpath(path)}")


def played_before(path: Path, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an evaluation that was cut, if it asked for the same."""
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    alike = {name: value for name, value in asked.items() if name not in ("minutes", "only")}
    rows: list[dict[str, Any]] = found["rows"]
    return rows if all(found["args"].get(name) == alike[name] for name in alike) else []


def plain_first(ids: Sequence[str]) -> list[str]:
    """Return one id of each game first, so that a short evaluation covers all games.

    >>> plain_first(["llm_gym/MazeHard-v0", "llm_gym/Maze-v0", "llm_gym/Count-v0"])
    ['llm_gym/Maze-v0', 'llm_gym/Count-v0', 'llm_gym/MazeHard-v0']
    """
    games = {row.id: row.entry_point for row in ENVS}
    shortest: dict[str, str] = {}
    for env_id in sorted(ids, key=len):
        shortest.setdefault(games.get(env_id, env_id), env_id)
    plain = [env_id for env_id in ids if env_id in shortest.values()]
    return plain + [env_id for env_id in ids if env_id not in plain]


def suite_mean(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | int | None]:
    """Return the means over environments, with half the width of their 95 % intervals.

    Every environment has the same weight. Without published scores, or with a solver that is no
    better than chance, it counts for the success only, not for the normalised score.
    """
    scaled = [row for row in rows if row["normalised"] is not None]
    return {
        "environments": len(rows),
        "success": statistics.fmean(row["success"] for row in rows),
        "success_half_width": _half_width([_half(row) for row in rows]),
        "environments_on_scale": len(scaled),
        "normalised": statistics.fmean(r["normalised"] for r in scaled) if scaled else None,
        "normalised_half_width": _half_width([_half(r) / _span(r["env"]) for r in scaled]),
    }


def _half(row: Mapping[str, Any]) -> float:
    return float(row["success_high"] - row["success_low"]) / 2


def _span(env_id: str) -> float:
    row = published()[env_id]
    return row["solver"].success - row["random"].success


def _half_width(halves: Sequence[float]) -> float | None:
    return math.sqrt(sum(half**2 for half in halves)) / len(halves) if halves else None


def play_together(
    ids: Sequence[str], policy: LLMPolicy, episodes: int, *, num_envs: int, seed: int
) -> list[Evaluation]:
    """Play all ``ids`` together to fill a GPU; episode ``i`` has the seed ``seed + i``."""
    from llm_gym_agents.rollouts.mix import MixedEnv, in_env
    from llm_gym_agents.rollouts.pool import TextEnvPool
    from llm_gym_agents.rollouts.sampler import Sampler
    from llm_gym_agents.rollouts.tasks import EpisodeTask

    todo = [
        EpisodeTask(which * episodes + at, seed + at, at, in_env(None, env_id))
        for at in range(episodes)
        for which, env_id in enumerate(ids)
    ]
    mixed = partial(MixedEnv, {env_id: {"rules": "system"} for env_id in ids})
    pool = TextEnvPool(mixed, min(num_envs, len(todo)))
    sampler = Sampler(policy, pool)
    start = perf_counter()
    try:
        played = sampler.play(todo)
    finally:
        sampler.collector.close()  # the engine stays
    seconds = (perf_counter() - start) / len(ids)
    for episode, turns in zip(played.episodes, played.turns, strict=True):
        episode.extra = {**(episode.extra or {}), "finish": [turn.finish for turn in turns]}
    tokens = {int(own[0].episode): sum(len(turn.reply_ids) for turn in own) for own in played.turns}
    found = []
    for which, env_id in enumerate(ids):
        mine = range(which * episodes, (which + 1) * episodes)
        own = [each for each in played.all_episodes if each.episode_id in mine]
        found.append(Evaluation(env_id, own, sum(tokens.get(at, 0) for at in mine), seconds))
    return found


if __name__ == "__main__":
    main()

"""What the built-in players score in every environment of the suite.

The random player, the reflex, the solver and the oracle play; the scores go to
``llm_gym/evaluate/scores.json``. Run it again for a new environment or version. For a model, use
``llm-gym eval --suite``.

    python -m benchmarks.envs.suite_scores
    python -m benchmarks.envs.suite_scores --episodes 100 --only Guess
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.lib.machine import GAME_PATHS, ROOT, provenance
from llm_gym.evaluate.scores import PLAYERS, Score, measure
from llm_gym.registry.suite import ENVS

SCORES = ROOT / "llm_gym" / "evaluate" / "scores.json"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000, help="per player")
    parser.add_argument("--only", default="", help="only ids that contain this; keep the others")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS))
    args = parser.parse_args(argv)
    ids = [row.id for row in ENVS if args.only in row.id]
    if not ids:
        raise SystemExit(f"no environment of the suite has {args.only!r} in its id")
    for env_id in ids:
        env = gym.make(env_id)
        row = {
            player: [round(value, 4) for value in measure(env, player, args.episodes)]
            for player in args.players
        }
        save_scores(SCORES, {env_id: row})
        shown = "  ".join(f"{player} {score[0]:.3f}" for player, score in row.items())
        print(f"{env_id:<36}{shown}", flush=True)


@cache
def game(env_id: str) -> tuple[str, int]:
    """Return the description and the turns for ``llm-gym list``."""
    env: Any = gym.make(env_id).unwrapped
    return type(env).__doc__.strip().partition("\n")[0], env.max_turns


def save_scores(path: Path, rows: Mapping[str, Any]) -> None:
    """Add ``rows`` to the file, and drop rows of ids that no longer exist."""
    known = json.loads(path.read_text())["scores"] if path.exists() else {}
    for env_id, row in rows.items():  # of a player that was not measured the score stays
        found = {**known.get(env_id, {}), **row}
        known[env_id] = {player: found[player] for player in PLAYERS if player in found}
    made = {
        **provenance(__file__, ("gymnasium", "numpy"), depends_on=GAME_PATHS),
        "fields": list(Score._fields),
        "scores": {row.id: known[row.id] for row in ENVS if row.id in known},
        "games": {row.id: game(row.id) for row in ENVS},
    }
    path.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What the built-in players score in every environment of the suite.

Writes ``llm_gym/envs/scores.json``, which ``llm-gym list`` and normalised scores quote. Run it
again, in the same change, whenever an environment is added or gets a new version.

    python benchmarks/suite_scores.py
    python benchmarks/suite_scores.py --episodes 100 --only Guess
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gymnasium as gym

from llm_gym.envs import ENVS
from llm_gym.scores import PLAYERS, measure

RESULT = Path(__file__).parents[1] / "llm_gym" / "envs" / "scores.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000, help="episodes per player")
    parser.add_argument("--only", default="", help="only ids that contain this; keep the others")
    args = parser.parse_args()

    old = json.loads(RESULT.read_text())["scores"] if RESULT.exists() else {}
    scores = {}
    for row in ENVS:
        if args.only not in row.id and row.id in old:
            scores[row.id] = old[row.id]
            continue
        env = gym.make(row.id)
        scores[row.id] = {
            player: [round(value, 4) for value in measure(env, player, args.episodes)]
            for player in PLAYERS
        }
        shown = "  ".join(f"{player} {score[0]:.3f}" for player, score in scores[row.id].items())
        print(f"{row.id:<36}{shown}", flush=True)
    fields = ["success", "low", "high", "turns", "episodes"]
    made = {"command": "python benchmarks/suite_scores.py", "fields": fields, "scores": scores}
    RESULT.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What recording training episodes costs an iteration of the demo, in CPU seconds.

Every iteration is recorded. ``share`` is the recorder's part of an iteration, ``share_default`` what
is left of it with the default ``checkpoint.record_every``. Evaluations are not counted.

    python -m benchmarks.learn.recording
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym.cli import main as llm_gym
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.trainer.run_folder import RECORDED_EPISODES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=9)
    args = parser.parse_args()
    about = provenance(__file__, ["torch", "torchrl", "tensordict"])
    recording: list[float] = []
    ends: list[float] = []
    record = RolloutRecorder.record

    def timed(*told: Any) -> None:
        start = process_time()
        record(*told)
        ends.append(process_time())
        recording.append(ends[-1] - start)

    RolloutRecorder.record = timed  # type: ignore[method-assign, assignment]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"checkpoint.output-dir": f"{folder}/run", "checkpoint.record-every": 1}
        settings |= {"training.num-iters-per-epoch": args.iterations, "training.num-epochs": 1}
        settings |= {"environment.eval-interval": 0, "checkpoint.save-interval": 0}
        flags = [each for name, value in settings.items() for each in (f"--{name}", str(value))]
        llm_gym(["train", "text-game-easy", *flags])
        sizes = [path.stat().st_size for path in Path(folder).glob("run/episodes/train-*")]
    iterations = [after - before for before, after in zip(ends, ends[1:], strict=False)]
    share = median(a / b for a, b in zip(recording[1:], iterations, strict=True))
    every = ConfigStore().checkpoint.record_every
    row = {
        "episodes": RECORDED_EPISODES,
        "iterations": len(iterations),
        "iteration_cpu_s": round(median(iterations), 4),
        "recording_cpu_ms": round(1e3 * median(recording[1:]), 3),
        "bytes": int(median(sizes)),
        "share": round(share, 5),
        "share_default": round(share / every, 6),
    }
    print(json.dumps(row))
    (RESULTS / "recording.json").write_text(json.dumps(about | {"rows": [row]}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""A suite as a process that answers questions, in an environment that is made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from peers.games import OURS, Game, Side, moves_of

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PEERS_VENV = ROOT / ".venv-peers"
# How each suite wants a move to be written.
ACTIONS = {OURS: "{}", "gem": r"\boxed{{{}}}", "textarena": "[{}]"}


class Worker:
    """A process with one suite in it, which answers questions: a line of JSON each way.

    Args:
        script: What it runs, with the name for an argument.
        name: Of the suite; ours may have a word behind it, and all others need the peers' Python.
        cpu: The one that it and its children keep to, if any.
    """

    def __init__(self, script: Path, name: str, cpu: int | None = None) -> None:
        is_ours = name.partition(" ")[0] == OURS
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable if is_ours else str(peers_python()), str(script), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if is_ours else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),
        )

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker of {self.name} died at {request['op']}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


class Suite(Worker):
    """A suite that plays games."""

    def __init__(self, name: str) -> None:
        super().__init__(WORKER, name)

    def make(self, game: Game, label: str) -> dict[str, str]:
        """Build a side of ``game``; return the versions of its packages, or an ``error``."""
        side: Side = game.sides[label]
        template = side.action or ACTIONS[self.name]
        answer: dict[str, str] = self.ask(
            op="make",
            game=label,
            id=side.id,
            kwargs=side.kwargs,
            actions=[template.format(move) for move in moves_of(game, label)],
            players=side.players,
            envs=side.envs,
            threads=side.threads,
        )
        if "error" not in answer:
            self.ask(op="play", game=label, seconds=0.1)  # warm up
        return answer


def peers_python() -> Path:
    """Return the Python of the peers' environment, which is created when it is not there."""
    python, marker = PEERS_VENV / "bin" / "python", PEERS_VENV / ".installed"
    wanted = REQUIREMENTS.read_text()
    if not marker.exists() or marker.read_text() != wanted:
        print(
            f"installing {REQUIREMENTS.name} of the peers into {PEERS_VENV.name}", file=sys.stderr
        )
        venv.create(PEERS_VENV, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
        marker.write_text(wanted)
    return python

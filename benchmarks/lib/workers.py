"""Peers in virtual environments of their own, and processes that answer questions there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import ROOT

REQUIREMENTS = ROOT / "benchmarks" / "peers" / "requirements.txt"
PEERS_VENV = ROOT / ".venv-peers"


class Worker:
    """A process with one suite in it, which answers questions: a line of JSON each way.

    Args:
        module: What it runs, with the name for an argument.
        name: Of the suite; ours may have a word behind it, and all others need the peers' Python.
        cpu: The one that it and its children keep to, if any.
    """

    def __init__(self, module: str, name: str, cpu: int | None = None) -> None:
        is_ours = name.partition(" ")[0] == "llm_gym"
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable if is_ours else str(peers_python()), "-m", module, name],
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


def python_with(name: str, *installs: Iterable[str]) -> str:
    """Return the Python of ``.venv-NAME``, made by what each of ``installs`` asks of pip."""
    folder = ROOT / f".venv-{name}"
    python, marker = folder / "bin" / "python", folder / ".installed"
    if not marker.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for wanted in installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        marker.touch()
    return str(python)


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

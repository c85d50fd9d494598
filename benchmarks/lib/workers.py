"""Virtual environments for peers, and processes that run in them and answer requests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.lib.machine import ROOT

REQUIREMENTS = ROOT / "benchmarks" / "peers" / "requirements.txt"


class Worker:
    """A process that runs ``module`` with the suite ``name``; it answers requests in JSON lines."""

    def __init__(self, module: str, name: str) -> None:
        is_ours = name == "llm_gym"
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable if is_ours else peers_python(), "-m", module, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if is_ours else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
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
        self.process.communicate()


def python_with(name: str, *installs: Iterable[str]) -> str:
    """Return the Python of ``.venv-NAME``; each of ``installs`` is one call of pip."""
    folder = ROOT / f".venv-{name}"
    python, marker = folder / "bin" / "python", folder / ".installed"
    wanted = "\n".join(" ".join(each) for each in installs)
    if not marker.exists() or marker.read_text() != wanted:
        print(f"installing into {folder.name}: {wanted}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for each in installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *each], check=True)
        marker.write_text(wanted)
    return str(python)


def peers_python() -> str:
    """Return the Python with the packages of ``peers/requirements.txt``."""
    lines = REQUIREMENTS.read_text().splitlines()
    return python_with("peers", [line for line in lines if not line.startswith("#")])

"""Virtual environments of peers, which cannot share one with each other or with us."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from machine import ROOT


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

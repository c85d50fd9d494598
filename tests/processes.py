"""Processes that a test starts, and whether they have ended, as Linux sees them."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_python(code, *arguments, **options):
    """Run ``code`` in a process of its own, from the root of the repository."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    options = {"cwd": ROOT, "capture_output": True, "text": True, **options}
    return subprocess.run(command, check=False, **options)


def _state(pid):
    """Return the state and the parent of a process, or None where there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return state, int(parent)


def is_running(pid):
    found = _state(pid)
    return found is not None and found[0] != "Z"


def descendants(pid):
    """Return all processes below ``pid``, those that have ended and were not waited for too."""
    known = {int(name): _state(name) for name in filter(str.isdigit, os.listdir("/proc"))}
    below, waiting = set(), [pid]
    while waiting:
        parent = waiting.pop()
        children = {child for child, found in known.items() if found and found[1] == parent}
        below |= children
        waiting += children
    return below


def still_running(pids):
    """Wait until the processes have ended; return those that have not."""
    for _ in range(1200):
        left = [pid for pid in pids if is_running(pid)]
        if not left:
            break
        time.sleep(0.05)
    return left

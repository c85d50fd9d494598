"""Looking after processes."""

import subprocess

from tests.vector.odd import pause


def runs(pid):
    """Whether a process exists and is not merely waiting to be forgotten by its parent."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return found.stdout.strip() != "" and not found.stdout.startswith("Z")


def wait_until_gone(pids, seconds):
    for _ in range(seconds * 10):
        if not any(map(runs, pids)):
            return
        pause(0.1)
    raise AssertionError(f"still running: {[pid for pid in pids if runs(pid)]}")

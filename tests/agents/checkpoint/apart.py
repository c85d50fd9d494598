"""Running one of the scripts of this folder in a process of its own: they fork and kill."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_apart(script, folder, *arguments):
    """Return what ``script`` wrote as JSON in its last line."""
    path = os.pathsep.join(map(str, (ROOT / "agents", ROOT)))
    done = subprocess.run(
        [sys.executable, script.__file__, folder, *arguments],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])

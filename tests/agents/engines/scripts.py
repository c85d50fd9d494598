"""Running a script in a Python of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def run_python(script, *paths):
    """Return what ``script`` prints, and the end of its errors; ``paths`` come first."""
    places = os.pathsep.join([*paths, str(_ROOT / "agents"), str(_ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr[-500:]

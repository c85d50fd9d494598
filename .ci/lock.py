"""Writes requirements.lock: every package that `make` installs, with version and hash.

``python .ci/lock.py`` asks pip what it would install here, so the hashes are those of files for
this Python and this kind of machine. torch is not among them: it comes as builds for the CPU and
for each CUDA, whose hashes differ; its version is pinned in constraints.txt.
"""

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "train,lora,dev"
# What builds the package itself, so that no build fetches something of its own.
BUILD = ("hatchling>=1.25", "editables")


def resolved() -> list[dict]:
    """Return what pip would install, newest versions that constraints.txt allows."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report)]
        command += ["--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[{EXTRAS}]", *BUILD]
        subprocess.run(command, check=True)
        return json.loads(report.read_text())["install"]


def main() -> None:
    """Write the file."""
    python = ".".join(map(str, sys.version_info[:2]))
    lines = [
        "# Written by: python .ci/lock.py",
        f"# For: Python {python}, {sys.platform}, {platform.machine()}",
    ]
    for one in sorted(resolved(), key=lambda one: one["metadata"]["name"].lower()):
        name, version = one["metadata"]["name"].lower(), one["metadata"]["version"]
        if name in ("llm-gym", "torch"):
            continue
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines += [f"{name}=={version} \\", f"    --hash=sha256:{digest}"]
    (ROOT / "requirements.lock").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Writes locks/train.txt and locks/dev.txt: every package that `make` installs, with hashes.

``make lock`` resolves once for all machines that the locks are for (Linux, x86-64 and aarch64,
Python 3.11 to 3.14); differences between them are markers. torch is not among them: it comes as
builds for the CPU and for each CUDA, whose hashes differ. constraints.txt has its version.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = {"train": ["train"], "dev": ["train", "lora", "dev"]}
# What builds the package itself, so that no build fetches something of its own.
BUILD = "hatchling>=1.25\neditables\n"
# torch's own dependencies for CUDA; pip adds them to a build of torch that needs them.
OF_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)")


def lock(extras: list[str]) -> str:
    """Return the lock of ``extras``."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml", "-"]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate"]
    command += ["--no-header", "--constraint", "constraints.txt"]
    for extra in extras:
        command += ["--extra", extra]
    done = subprocess.run(command, cwd=ROOT, input=BUILD, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    packages = re.findall(r"^\S.*(?:\n    .*)*", done.stdout, re.M)
    kept = [each for each in packages if not is_of_torch(each)]
    return "# Written by: make lock\n" + "\n".join(kept) + "\n"


def is_of_torch(package: str) -> bool:
    """Return whether a package is torch, or comes with its CUDA builds alone."""
    name = re.match(r"[\w.-]+", package)
    return bool(name and OF_TORCH.fullmatch(name[0]))


def main() -> None:
    """Write the files."""
    (ROOT / "locks").mkdir(exist_ok=True)
    for name, extras in LOCKS.items():
        (ROOT / "locks" / f"{name}.txt").write_text(lock(extras))


if __name__ == "__main__":
    main()

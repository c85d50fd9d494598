"""``llm-gym check``: the contract checker, for authors of environments."""

from __future__ import annotations

import argparse
import os
import sys

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.terminal_text import sentence
from llm_gym.evaluate.checker import audit

HELP = "check that an environment keeps the contract"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("env", help="module:EnvClass, or a registered id")
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Print every check; return 1 if one failed."""
    # Gymnasium's checker renders, and nobody wants to see windows open and close.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    checks = audit(make(options))
    for check in checks:
        if check.passed is not None:
            detail = f"\n      {sentence(check.detail)}" if check.detail else ""
            sys.stdout.write(f"{'ok' if check.passed else 'FAIL':<6}{check.name}{detail}\n")
    for why in dict.fromkeys(check.detail for check in checks if check.passed is None):
        names = [check.name for check in checks if (check.passed, check.detail) == (None, why)]
        sys.stdout.write(f"\nnot checked, {why}:\n")
        sys.stdout.writelines(f"      {name}\n" for name in names)
    failed = sum(check.passed is False for check in checks)
    skipped = sum(check.passed is None for check in checks)
    told = f"{failed or 'no'} rule{'s' * (failed != 1)} broken"
    told += f", {skipped} not checked" if skipped else ""
    sys.stdout.write(f"\n{options.env}: {told}\n")
    return int(failed > 0)

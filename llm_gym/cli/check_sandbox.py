"""``llm-gym check-sandbox``: what isolates code here, and does it hold?"""

from __future__ import annotations

import argparse
import sys

from llm_gym.sandbox import Sandbox
from llm_gym.sandbox.check import try_escapes
from llm_gym.sandbox.sandbox import ISOLATIONS

HELP = "try every known way out of the sandbox"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    # Without isolation the attempts would succeed, and some of them do harm.
    choices = [name for name in ISOLATIONS if name != "none"]
    parser.add_argument("--isolation", choices=choices, default="auto")
    parser.add_argument("--verbose", action="store_true", help="show how each attempt ended")


def run(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something got out."""
    with Sandbox(isolation=options.isolation) as sandbox:
        findings = try_escapes(sandbox)
        landlock = f" and Landlock {sandbox.landlock}" if sandbox.landlock else ""
        sys.stdout.write(f"isolated by {sandbox.mechanism}, seccomp, rlimits{landlock}\n")
    for finding in findings:
        if options.verbose or not finding.contained:
            mark = "held" if finding.contained else "ESCAPED"
            sys.stdout.write(f"{mark:<9}{finding.name}: {finding.detail}\n")
    held = sum(finding.contained for finding in findings)
    sys.stdout.write(f"{held} of {len(findings)} attempts to get out were contained\n")
    return int(held < len(findings))

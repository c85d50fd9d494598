"""``llm-gym check-sandbox``: what isolates code here, and does it hold?"""

from __future__ import annotations

import argparse
import sys

from llm_gym.sandbox import Sandbox
from llm_gym.sandbox.check import check_isolation
from llm_gym.sandbox.sandbox import ISOLATIONS

HELP = "say what isolates code here, and try some ways out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    # Without isolation every probe succeeds.
    choices = [name for name in ISOLATIONS if name != "none"]
    parser.add_argument("--isolation", choices=choices, default="auto")
    parser.add_argument("--verbose", action="store_true", help="show how each attempt ended")


def run(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something got out."""
    with Sandbox(isolation=options.isolation) as sandbox:
        findings = check_isolation(sandbox)
        landlock = f" and Landlock {sandbox.landlock}" if sandbox.landlock else ""
        sys.stdout.write(f"isolated by {sandbox.mechanism}, seccomp, rlimits{landlock}\n")
    for finding in findings:
        if options.verbose or not finding.contained:
            mark = "held" if finding.contained else "ESCAPED"
            note = "" if finding.counted else " (not counted: it fails without isolation too)"
            sys.stdout.write(f"{mark:<9}{finding.name}: {finding.detail}{note}\n")
    counted = [finding for finding in findings if finding.counted]
    held = sum(finding.contained for finding in counted)
    sys.stdout.write(f"{held} of {len(counted)} ways out that work without isolation were closed\n")
    return int(not all(finding.contained for finding in findings))

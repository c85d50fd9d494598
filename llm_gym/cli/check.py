"""``llm-gym check``: an environment keeps its contract, and the sandbox holds."""

import argparse
import os

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.terminal_text import say, sentence
from llm_gym.core.errors import ConfigError
from llm_gym.core.text import did_you_mean

HELP = "check an environment, or the sandbox"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.epilog = (
        "check ENV tests the contract of an environment; check sandbox tries every known way out"
    )
    parser.add_argument("what", help="module:EnvClass or a registered id; or sandbox")
    parser.add_argument("--isolation", default="auto", help="with sandbox: which one (auto)")
    parser.add_argument(
        "--verbose", action="store_true", help="with sandbox: show how each attempt ended"
    )
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something failed."""
    if options.what == "sandbox":
        return _check_sandbox(options)
    options.env = options.what
    return _check_env(options)


# --- environments ----------------------------------------------------------------------------


def _check_env(options: argparse.Namespace) -> int:
    """Print every check; return 1 if one failed."""
    from llm_gym.evaluate.checker import audit

    # Gymnasium's checker renders, and nobody wants to see windows open and close.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    checks = audit(make(options))
    for check in checks:
        if check.passed is not None:
            detail = f"\n      {sentence(check.detail)}" if check.detail else ""
            say(f"{'ok' if check.passed else 'FAIL':<6}{check.name}{detail}")
    for why in dict.fromkeys(check.detail for check in checks if check.passed is None):
        names = [check.name for check in checks if (check.passed, check.detail) == (None, why)]
        say(f"\nnot checked, {why}:")
        say("\n".join(f"      {name}" for name in names))
    failed = sum(check.passed is False for check in checks)
    skipped = sum(check.passed is None for check in checks)
    told = f"{failed or 'no'} rule{'s' * (failed != 1)} broken"
    told += f", {skipped} not checked" if skipped else ""
    say(f"\n{options.env}: {told}")
    return int(failed > 0)


# --- the sandbox -----------------------------------------------------------------------------


def _check_sandbox(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something got out."""
    from llm_gym.tools.sandbox import Sandbox, check
    from llm_gym.tools.sandbox.sandbox import ISOLATIONS

    known = [name for name in ISOLATIONS if name != "none"]  # where every probe succeeds
    if options.isolation not in known:
        hint = did_you_mean(options.isolation, known)
        raise ConfigError(
            f"--isolation must be one of {', '.join(known)}, got {options.isolation!r}{hint}"
        )
    with Sandbox(isolation=options.isolation) as sandbox:
        findings = check.check_isolation(sandbox)
        landlock = f" and Landlock {sandbox.landlock}" if sandbox.landlock else ""
        say(f"isolated by {sandbox.mechanism}, seccomp, rlimits{landlock}")
    for finding in findings:
        if options.verbose or not finding.contained:
            mark = "held" if finding.contained else "ESCAPED"
            note = "" if finding.counted else " (not counted: it fails without isolation too)"
            say(f"{mark:<9}{finding.name}: {finding.detail}{note}")
    counted = [finding for finding in findings if finding.counted]
    held = sum(finding.contained for finding in counted)
    say(f"{held} of {len(counted)} ways out that work without isolation were closed")
    return int(not all(finding.contained for finding in findings))

"""What a call gave."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from llm_gym.errors import LLMGymError


class SandboxError(LLMGymError, RuntimeError):
    """The sandbox itself cannot be had or has failed; never the fault of the code in it."""


class NoCellError(SandboxError):
    """There is no room for one more call or session; those that there are go on."""


@dataclass(frozen=True)
class Result:
    r"""What came of running some code.

    >>> Result(stdout="4\n").text()
    '4'
    >>> Result(ok=False, error="took longer than 2 s", timed_out=True).text()
    'Error: took longer than 2 s'
    """

    stdout: str = ""
    stderr: str = ""
    """What the code wrote to it, and the traceback of what it raised, shortened."""
    ok: bool = True
    error: str = ""
    """In one line what went wrong; empty if ``ok``."""
    exit_code: int = 0
    """Minus the number of the signal if one ended the process."""
    timed_out: bool = False
    truncated: bool = False
    """Whether some of ``stdout`` or ``stderr`` was left out."""
    seconds: float = 0.0

    def text(self) -> str:
        """Return it all as one text, for a model to read."""
        parts = [self.stdout.rstrip(), self.stderr.rstrip()]
        # A traceback ends with the error, less the line, which stands above it.
        if self.error and self.error.partition(" (line ")[0] not in self.stderr:
            parts.append(f"Error: {self.error}")
        if self.truncated:
            parts.append("[some output was left out]")
        return "\n".join(part for part in parts if part) or "(no output)"


def cause_of_death(exit_code: int) -> str:
    """Return in words how a process ended without a last word.

    >>> cause_of_death(-11), cause_of_death(3)
    ('the process crashed (SIGSEGV)', 'the process ended with exit code 3')
    """
    if exit_code >= 0:
        return f"the process ended with exit code {exit_code}" if exit_code else ""
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    if name == "SIGXCPU":
        return "used more processor time than it may"
    return (
        f"the process was killed ({name})"
        if name == "SIGKILL"
        else (f"the process crashed ({name})")
    )

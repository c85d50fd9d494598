"""Work, counted: what tests ask about speed, since the same call does the same on every machine.

A test never asserts on seconds: a busy machine would fail it, and a fast one would hide a loop
that is quadratic. Seconds are measured in ``benchmarks/``.
"""

import signal
import sys
from contextlib import contextmanager


def steps_of(function, *args, **kwargs):
    """Return how many lines of Python a call runs, and built-in functions it calls."""
    steps = 0

    def trace(frame, event, argument):
        nonlocal steps
        steps += event in ("line", "call")
        return trace

    def profile(frame, event, argument):
        nonlocal steps
        steps += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        function(*args, **kwargs)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return steps


@contextmanager
def ends_at_all(cpu_seconds=100):
    """Fail a block that would go on for hours, such as an expression that backtracks.

    It cannot be counted, since it happens inside one call of ``re``. The seconds are this
    process's own, hundreds of times what the block needs, and only there so that it fails and
    does not hang.
    """

    def give_up(*_):
        raise AssertionError(f"still running after {cpu_seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

"""Nothing gets out: every known way, under every isolation that this machine has."""

import pytest

from llm_gym.tools.sandbox import Sandbox, check
from llm_gym.tools.sandbox.check import attempt, outside
from llm_gym.tools.sandbox.inside.syscalls import MACHINES
from tests.matrix import some_of
from tests.processes import descendants, still_running
from tests.tools.sandbox.attempts import CALLS, CONDITIONAL, ENDINGS, ESCAPES, HARMFUL, MACHINE
from tests.tools.sandbox.sandboxes import ISOLATED, need

FILLING = {"map more than the kernel has areas for", "fill the table of files"}
"""They take seconds."""


def under_isolation(names):
    """Each of ``names`` under every isolation; quick under one, slow where it fills a table."""
    cells = some_of(ISOLATED, names)
    cells = [
        pytest.param(*cell.values, marks=pytest.mark.slow) if cell.values[1] in FILLING else cell
        for cell in cells
    ]
    return pytest.mark.parametrize(("prison", "name"), cells, indirect=["prison"])


@pytest.fixture(scope="module")
def prison(request):
    need(request.param)
    with outside() as place, Sandbox(isolation=request.param) as sandbox:
        yield sandbox, place


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(check, "LATE_S", 120.0)  # the machine may be busy


@under_isolation(ESCAPES)
def test_every_escape_attempt_is_contained(prison, name):
    sandbox, place = prison
    finding = attempt(sandbox, name, ESCAPES[name], place)
    assert finding.contained, finding.detail


@under_isolation(ENDINGS)
def test_the_sandbox_goes_on_after_a_crash(prison, name):
    sandbox, place = prison
    timeout = 0.5 if "crash" in name else 0.2  # the others run until it comes
    finding = attempt(sandbox, name, ENDINGS[name], place, timeout)
    assert finding.contained, finding.detail


@pytest.mark.skipif(MACHINE not in MACHINES, reason="the sandbox knows no other machine")
@pytest.mark.parametrize("name", [name for name in ESCAPES if name not in HARMFUL | CONDITIONAL])
def test_an_attempt_succeeds_without_isolation(name):
    need("none")
    assert check.succeeds_without_isolation(name, ESCAPES[name])


def test_most_attempts_can_fail():
    assert len(ESCAPES) - len(HARMFUL | CONDITIONAL) >= 30
    assert CALLS.keys() - HARMFUL - CONDITIONAL >= {
        "share memory with strangers", "use sockets by number", "handle page faults of its own",
    }  # fmt: skip


@pytest.mark.parametrize("isolation", [*ISOLATED, "none"])
def test_processes_end_with_their_call_and_with_the_sandbox(isolation):
    need(isolation)
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"
    with Sandbox(isolation=isolation) as sandbox:
        sandbox.run("1")
        worker = sandbox._worker.process.pid
        quiet = len(descendants(worker))
        assert sandbox.run(code, timeout=0.3).timed_out
        assert len(descendants(worker)) == quiet
        session = sandbox.session()
        session.run("import time")
        assert len(descendants(worker)) == quiet + 1
        everybody = [worker, *descendants(worker)]
    session.close()
    assert not still_running(everybody)

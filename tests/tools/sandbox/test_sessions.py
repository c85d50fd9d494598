"""Sessions: code that goes on where the last run ended."""

import threading


def test_a_session_keeps_its_variables(sandbox):
    with sandbox.session() as session, sandbox.session() as other:
        assert session.run("x = 20\ndef double(): return 2 * x").ok
        assert session.run("x += 1\ndouble()").stdout == "42\n"
        assert "NameError" in other.run("x").error


def test_a_session_survives_errors_and_exits(sandbox):
    with sandbox.session() as session:
        session.run("x = 5")
        assert not session.run("1 / 0").ok
        assert session.run("import sys; sys.exit(2)").exit_code == 2
        assert session.run("x").stdout == "5\n"
        assert session.restarts == 0


def test_a_session_that_ran_out_of_time_begins_anew(sandbox):
    with sandbox.session() as session:
        session.run("x = 5")
        assert session.run("while True: pass", timeout=0.2).timed_out
        assert session.restarts == 1
        assert "NameError" in session.run("x").error
        assert session.run("import os; os._exit(0)").ok
        assert session.restarts == 2


def test_a_session_quotes_the_run_that_defined_a_function(sandbox):
    with sandbox.session() as session:
        session.run("def f():\n    return 1 / 0")
        assert "    return 1 / 0" in session.run("x = 1\nf()").stderr


def test_a_session_does_nothing_between_runs(sandbox):
    pauses = (
        "import threading, time\nlongest = 0.0\ndef tick():\n    global longest\n"
        "    last = time.monotonic()\n    while True:\n        time.sleep(0.001)\n"
        "        last, before = time.monotonic(), last\n"
        "        longest = max(longest, last - before)\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
        "while not longest: time.sleep(0.001)"
    )
    with sandbox.session() as session:
        assert session.run(pauses).ok
        threading.Event().wait(0.5)
        assert session.run("while longest < 0.4: time.sleep(0.001)").ok  # or it runs out of time

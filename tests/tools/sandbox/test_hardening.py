"""The user that code runs as, its file descriptors, locks and leftover files."""

import fcntl
import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from llm_gym.tools.sandbox import Sandbox
from tests.processes import run_python
from tests.robustness.other_users import can_switch_user, run_as
from tests.tools.sandbox.sandboxes import need

WHO = """
import json, os
from llm_gym.tools.sandbox import Sandbox, SandboxError
for isolation in ("namespaces", "landlock"):
    try:
        with Sandbox(isolation=isolation) as sandbox:
            sandbox.run("1")
            pid = sandbox._worker.process.pid
            with open(f"/proc/{pid}/status") as file:
                users = next(line for line in file if line.startswith("Uid:")).split()[1:]
            result = sandbox.run("import os; os.chmod('/dev/null', 0o666); print('changed')")
            print(json.dumps([isolation, sorted(set(users)), result.stdout]))
    except SandboxError as error:
        print(json.dumps([isolation, "refused", str(error)]))
"""


def answers(mode):
    if not can_switch_user():
        pytest.skip("only root can be somebody else")
    done = run_as(mode, ["-c", WHO], timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["root", "root of a container"])
def test_code_of_root_runs_as_nobody_and_leaves_devices_alone(mode):
    need("namespaces")
    found = answers(mode)
    assert [one[0] for one in found] == ["namespaces", "landlock"]
    for _, users, printed in found:
        if users != "refused":  # a kernel without Landlock
            assert (users, printed) == (["65534"], "")
    # Nobody cannot read a checkout in a closed folder, such as one of ``mktemp -d``.
    is_open = all(part.stat().st_mode & 0o001 for part in Path(__file__).resolve().parents)
    assert found[0][1] != "refused" or not is_open


def test_root_without_capabilities_is_refused():
    for _, users, why in answers("root without capabilities"):
        assert users == "refused"
        assert "nobody" in why


def test_one_session_too_many_is_refused_and_the_others_go_on():
    need("namespaces")
    code = """
import resource
from llm_gym.tools.sandbox import Sandbox, SandboxError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
sandbox, sessions, refused = Sandbox(isolation="namespaces"), [], ""
for number in range(40):
    session = sandbox.session()
    try:
        session.run(f"x = {number}")
    except SandboxError as error:
        refused = str(error)
        break
    sessions.append(session)
assert "descriptor" in refused, refused
assert len(sessions) > 5
for number, session in enumerate(sessions):
    assert session.run("print(x)").stdout == f"{number}\\n", number
    assert session.restarts == 0
sessions.pop().close()
assert sandbox.run("print(1)").stdout == "1\\n"
print("held", len(sessions))
sandbox.close()
"""
    done = run_python(code)
    assert done.stdout.startswith("held"), done.stderr


def test_a_request_without_descriptors_ends_no_session():
    need("namespaces")
    with Sandbox(isolation="namespaces") as sandbox, sandbox.session() as session:
        session.run("x = 7")
        order = json.dumps({"once": True, "limits": {}}).encode()
        # So it arrives where the worker has no number left for them.
        socket.send_fds(sandbox._worker.requests, [order], [0, 1])
        assert session.run("print(x)").stdout == "7\n"
        assert sandbox.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize("isolation", ["namespaces", "none"])
def test_a_program_that_is_killed_leaves_nothing_in_the_temporary_folder(tmp_path, isolation):
    need(isolation)
    code = f"""
import os, signal
from llm_gym.tools.sandbox import Sandbox
sandbox = Sandbox(isolation={isolation!r})
assert sandbox.run("print(1)").ok
session = sandbox.session()
session.run("open('left', 'w').write('x')")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = run_python(code, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=False)
    assert done.returncode == -9
    for _ in range(200):
        if not list(tmp_path.iterdir()):
            break
        subprocess.run(["sleep", "0.05"], check=True)
    assert list(tmp_path.iterdir()) == []


def test_file_locks_do_not_leave_the_sandbox(tmp_path):
    need("namespaces")
    shared = Path(json.__file__)
    code = f"""
import fcntl, sqlite3
file = open({str(shared)!r})
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_SH)
base = sqlite3.connect('mine.db')  # which needs locks to work
base.execute('CREATE TABLE t (n)'); base.execute('INSERT INTO t VALUES (5)'); base.commit()
print(base.execute('SELECT n FROM t').fetchall())
"""
    with Sandbox(isolation="namespaces") as sandbox, sandbox.session() as session:
        assert session.run(code).stdout == "[(5,)]\n"
        with shared.open() as file:  # nobody is in our way while the cell is there
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)

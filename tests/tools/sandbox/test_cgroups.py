"""Control groups: bounds for a child as a whole, where the system hands us a group.

Most machines that run tests hand us none, so what is written, and where, is shown on a tree of
plain folders that fills itself as the kernel's does; the last tests need the kernel's own.
"""

import os
import subprocess
from pathlib import Path

import pytest

from llm_gym.tools.sandbox import Sandbox, SandboxError, worker
from llm_gym.tools.sandbox.inside.fork_server import ChildCgroups

FILES = ("cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "pids.max")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A stand-in for the kernel's tree; we are in ``user/app``; ``user`` hands controllers on."""
    make = os.mkdir

    def mkdir(path, mode=0o777, *, dir_fd=None):
        make(path, mode, dir_fd=dir_fd)
        place = Path(path)
        if dir_fd is not None:
            place = Path(os.readlink(f"/proc/self/fd/{dir_fd}")) / path
        for name in FILES:
            (place / name).touch()
        (place / "cgroup.controllers").write_text("cpu memory pids\n")

    monkeypatch.setattr(os, "mkdir", mkdir)
    for path in (tmp_path / "user", tmp_path / "user/app"):
        os.mkdir(path)
    (tmp_path / "user/cgroup.subtree_control").write_text("cpu memory pids")
    monkeypatch.setattr(worker, "_own", lambda: (tmp_path, "/user/app"))
    monkeypatch.setattr(worker, "_TRIES", 1)
    return tmp_path


def test_a_group_is_made_beside_our_own_and_hands_both_controllers_down(tree):
    group = worker.make_cgroup()
    assert group.path.parent == tree / "user"
    assert group.controllers == ["memory", "pids"]
    assert (group.path / "cgroup.subtree_control").read_text() == "+memory +pids"
    with subprocess.Popen(["sleep", "600"]) as alone:
        group.take(alone.pid)
        alone.kill()
    assert (group.path / "worker/cgroup.procs").read_text() == str(alone.pid)
    os.close(group.descriptor)


@pytest.mark.parametrize("handed_down", ["", "cpu io"])
def test_where_no_controller_is_handed_down_there_is_no_group(tree, handed_down):
    (tree / "user/cgroup.subtree_control").write_text(handed_down)
    assert worker.make_cgroup() is None


def test_without_version_2_there_is_no_group(monkeypatch):
    monkeypatch.setattr(worker, "_own", lambda: None)
    assert worker.make_cgroup() is None


def test_what_a_killed_program_has_left_is_swept_and_nobody_elses(tree):
    dead, living = tree / "user/llm-gym-999999999-ab", tree / f"user/llm-gym-{os.getpid()}-cd"
    for folder in (dead, dead / "worker", living):
        folder.mkdir()
    for file in filter(Path.is_file, list(dead.rglob("*"))):  # the kernel's vanish with a folder
        file.unlink()
    group = worker.make_cgroup()
    os.close(group.descriptor)
    assert not dead.exists()
    assert living.exists()


@pytest.mark.parametrize("controllers", [["memory", "pids"], ["memory"], ["pids"]])
def test_a_cell_is_bound_as_a_whole_by_the_controllers_that_there_are(tree, controllers):
    group = worker.make_cgroup()
    groups = ChildCgroups(group.descriptor, controllers)
    names = [groups.make(1 << 20, 5), groups.make(2 << 20, 6)]
    assert len(set(names)) == 2
    first = group.path / names[0]
    assert (first / "memory.max").read_text() == ("1048576" if "memory" in controllers else "")
    assert (first / "memory.swap.max").read_text() == ("0" if "memory" in controllers else "")
    assert (first / "pids.max").read_text() == ("5" if "pids" in controllers else "")
    groups.enter(names[1])
    assert (group.path / names[1] / "cgroup.procs").read_text() == "0"
    assert (first / "cgroup.procs").read_text() == ""
    os.close(group.descriptor)


# --- the kernel's own ---------------------------------------------------------------------------


@pytest.fixture(params=["namespaces", "landlock"])
def grouped(request):
    """A sandbox whose cells have groups, and the folder of its worker's."""
    try:
        with Sandbox(isolation=request.param, tasks=8, timeout=60) as sandbox:
            group = sandbox._started()._cgroup
            if group is None:
                pytest.skip("no control group is delegated to us here")
            yield sandbox, group.path
    except SandboxError as error:
        pytest.skip(str(error))
    assert not group.path.exists()


def test_every_cell_has_a_group_that_goes_with_it(grouped):
    sandbox, place = grouped
    with sandbox.session() as first, sandbox.session() as second:
        assert first.run("x = 1").ok
        assert second.run("x = 2").ok
        cells = sorted(place.glob("child-*"))
        assert len(cells) == 2
        assert all((cell / "cgroup.procs").read_text().split() for cell in cells)
        if "pids" in sandbox._started().controllers:
            assert [(cell / "pids.max").read_text() for cell in cells] == ["9\n", "9\n"]
    assert sandbox.run("print(7)").stdout == "7\n"
    assert [cell for cell in place.glob("child-*") if (cell / "cgroup.procs").read_text()] == []


def test_threads_are_bound_by_child(grouped):
    sandbox, _ = grouped
    if "pids" not in sandbox._started().controllers:
        pytest.skip("the group has no controller for tasks")
    code = """
import os, threading, time
count = 0
try:
    while count < 100:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count, flush=True)
os._exit(0)
"""
    assert int(sandbox.run(code).stdout) <= 8

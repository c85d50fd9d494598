"""The seccomp program, run by an interpreter, for every supported machine."""

import re
import struct
from pathlib import Path

import pytest

from llm_gym.tools.sandbox.inside import syscalls
from llm_gym.tools.sandbox.inside.seccomp import (
    ALLOW,
    AUDIT_ARCH,
    ENOSYS,
    EPERM,
    KILL_PROCESS,
    program,
)
from tests.tools.sandbox.calls import REFUSED, table

MACHINES = syscalls.MACHINES
CLONE_THREAD, CLONE_NEWUSER, SIGCHLD = 0x10000, 0x10000000, 17


def judge(code, arch, number, *arguments):
    """Run a BPF program on one system call."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    rows = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        operation, yes, no, value = rows[at]
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            return value
        else:
            passed = {
                0x15: accumulator == value,
                0x25: accumulator > value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[operation]
            at += yes if passed else no


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("metadata", [True, False])
def test_exactly_the_listed_calls_pass_whatever_their_arguments(machine, metadata):
    code = program(machine, 1, metadata=metadata)
    listed = set(syscalls.always(machine, metadata).values())
    guarded = set(syscalls.guarded(machine).values())
    assert len(listed) > 140
    for number in [*range(600), 0x7FFFFFFF]:
        if number not in guarded:
            verdict = judge(code, AUDIT_ARCH[machine], number, *[2**64 - 1] * 6)
            assert verdict == (ALLOW if number in listed else EPERM), number


@pytest.mark.parametrize("machine", MACHINES)
def test_changing_metadata_is_a_setting(machine):
    chmod = {"x86_64": 90, "aarch64": 52}[machine]
    for metadata in (True, False):
        code = program(machine, 1, metadata=metadata)
        assert (judge(code, AUDIT_ARCH[machine], chmod) == ALLOW) is metadata


def test_another_architecture_is_killed_and_x32_calls_are_refused():
    code = program("x86_64", 1, metadata=True)
    assert judge(code, 0x40000003, 1) == KILL_PROCESS  # i386, where 1 is exit
    for number in (0x40000000, 0x40000000 + 59, 0x7FFFFFFF):
        assert judge(code, AUDIT_ARCH["x86_64"], number) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_guarded_calls_are_judged_by_their_arguments(machine):
    names, arch = syscalls.guarded(machine), AUDIT_ARCH[machine]

    def verdict(name, *arguments):
        code = program(machine, 77, metadata=True)
        return judge(code, arch, names[name], *arguments)

    assert verdict("clone", CLONE_THREAD | 0x3D0F00) == ALLOW
    assert verdict("clone", SIGCHLD) == EPERM
    assert verdict("clone", CLONE_THREAD | CLONE_NEWUSER) == EPERM
    assert verdict("clone3") == ENOSYS
    for name in ("kill", "tgkill"):
        assert verdict(name, 77, 9) == ALLOW
        assert verdict(name, 78, 9) == EPERM
        assert verdict(name, 2**32 - 1, 9) == EPERM  # everybody
        assert verdict(name, 0, 9) == EPERM  # the group
    assert verdict("prlimit64", 0) == ALLOW
    assert verdict("prlimit64", 1) == EPERM
    assert verdict("prctl", 15) == ALLOW
    for option in (1, 4, 22, 36, 38, 59):
        assert verdict("prctl", option) == EPERM
    for flags in (0, 0x80000, 0x800):  # close on exec, do not wait
        assert verdict("socketpair", 1, 1 | flags) == ALLOW
        assert verdict("socketpair", 1, 5 | flags) == ALLOW
        assert verdict("socketpair", 2, 1 | flags) == EPERM
        for kind in (0, *range(2, 5), *range(6, 16)):  # datagrams can be sent by a path
            assert verdict("socketpair", 1, kind | flags) == EPERM
    assert verdict("ioctl", 0, 0x5401) == ALLOW
    assert verdict("ioctl", 0, 0x5412) == EPERM  # TIOCSTI
    assert verdict("fcntl", 5, 1030) == ALLOW  # F_DUPFD_CLOEXEC
    for command in (8, 10, 15, 1024, 1033):  # F_SETOWN, F_SETSIG, F_SETOWN_EX, leases, seals
        assert verdict("fcntl", 5, command) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_no_dangerous_call_is_allowed(machine):
    names = syscalls.always(machine, metadata=True).keys() | syscalls.guarded(machine).keys()
    refused = syscalls._numbers(REFUSED, machine).keys()
    assert len(refused) > 80
    assert not names & refused


def test_each_number_belongs_to_one_call():
    for machine in MACHINES:
        numbers = list(table(machine).values())
        assert len(numbers) == len(set(numbers))


HEADERS = {
    "x86_64": ("/usr/include/asm/unistd_64.h", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_table_agrees_with_the_headers_of_the_kernel(machine):
    path = next((path for path in map(Path, HEADERS[machine]) if path.is_file()), None)
    if path is None:
        pytest.skip(f"no kernel headers for {machine} here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    numbers = {name: int(number) for name, number in reversed(found)}
    numbers.setdefault("newfstatat", numbers.get("fstatat"))  # its name in the generic header
    ours = table(machine)
    known = {name: numbers[name] for name in ours if name in numbers}
    assert known == {name: ours[name] for name in known}
    # Newer calls may be missing in older headers; no others.
    assert all(ours[name] >= 424 for name in ours.keys() - known.keys())
    every = table("x86_64").keys() | table("aarch64").keys()
    assert not (every - ours.keys()) & numbers.keys()

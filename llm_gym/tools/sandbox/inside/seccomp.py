"""The system calls that code in the sandbox may make, as a seccomp-BPF program.

This is an allow list: every other call, calls of future kernels included, fails with EPERM. There
is no ``fork``, ``execve``, ``socket``, ``mount``, ``ptrace``, ``memfd_create`` or ``io_uring``, and
no way to signal, trace or read another process. ``clone3`` hides its flags behind a pointer, so it
returns ENOSYS and the C library falls back to ``clone``.
"""

import struct
from collections.abc import Iterable
from functools import cache

from llm_gym.tools.sandbox.inside import syscalls

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
EPERM, ENOSYS = 0x00050000 | 1, 0x00050000 | 38
PRETEND = 0x00050000
"""Returns success without doing anything."""

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_ABOVE, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x15, 0x25, 0x35, 0x45
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32_BIT = 0x40000000

_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000  # every CLONE_NEW* that clone knows
_AF_UNIX = 1
# Socket pairs of these types stay connected. A datagram could go to any socket by its path, which
# Landlock does not check, and the filter cannot read the address.
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 5, 0xF
_PRCTL = (15, 16, 0x53564D41)  # set and get the thread's name, name an area of memory
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # is it a tty, bytes to read, flags
# Duplicating, flags, and reading the size of a pipe; not F_SETOWN, which can send signals to other
# processes, and not F_SETPIPE_SZ, which uses kernel memory.
_FCNTL = (*range(6), 36, 1030, 1032)
# A lock on a file of the host would block others, and a million locks use kernel memory. No other
# process uses the files of a child, so a lock call returns success without a lock.
_LOCKS = (6, 7, 37, 38)
# Socket options without the buffer sizes (7, 8, 32, 33), which use kernel memory.
_SOCKET_OPTIONS = (2, 9, 10, 13, 15, 16, 18, 19, 20, 21)

Instruction = tuple[int, int, int, int]


def _return(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _on_argument(index: int, *tests: tuple[int, Iterable[int], int], otherwise: int) -> bytes:
    """Return code for the verdict of the first test that the low half of an argument passes.

    A test is a kind of jump, values (one has to match), and the verdict.
    """
    rows: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * index)]
    for jump, values, verdict in tests:
        for value in values:
            rows += [(jump, 0, 1, value), _return(verdict)]
    return _pack([*rows, _return(otherwise)])


def _one_of(index: int, values: Iterable[int]) -> bytes:
    """Return code that allows only ``values`` for an argument."""
    return _on_argument(index, (_JUMP_EQUAL, values, ALLOW), otherwise=EPERM)


def _pack(rows: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def _guards(pid: int) -> dict[str, bytes]:
    """Return the code that decides each call which depends on its arguments."""
    itself = _one_of(0, [pid])
    return {
        "clone": _on_argument(
            0,
            (_JUMP_ANY_BIT, [_CLONE_NAMESPACES], EPERM),
            (_JUMP_ANY_BIT, [_CLONE_THREAD], ALLOW),
            otherwise=EPERM,
        ),
        "clone3": _pack([_return(ENOSYS)]),
        "kill": itself,
        "tgkill": itself,
        "prlimit64": _one_of(0, [0, pid]),
        "prctl": _one_of(0, _PRCTL),
        "socketpair": _pack(
            [
                (_LOAD, 0, 0, _ARGUMENTS),
                (_JUMP_EQUAL, 1, 0, _AF_UNIX),
                _return(EPERM),
                (_LOAD, 0, 0, _ARGUMENTS + 8),
                (_AND, 0, 0, _SOCK_TYPE),
                (_JUMP_EQUAL, 1, 0, _SOCK_STREAM),
                (_JUMP_EQUAL, 0, 1, _SOCK_SEQPACKET),
                _return(ALLOW),
                _return(EPERM),
            ]
        ),
        "ioctl": _one_of(1, _IOCTL),
        "fcntl": _on_argument(
            1, (_JUMP_EQUAL, _LOCKS, PRETEND), (_JUMP_EQUAL, _FCNTL, ALLOW), otherwise=EPERM
        ),
        "flock": _pack([_return(PRETEND)]),
        "setsockopt": _one_of(2, _SOCKET_OPTIONS),
    }


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of numbers that follow each other.

    >>> _runs([7, 1, 2, 3])
    [(1, 3), (7, 7)]
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


@cache
def allowed(machine: str, metadata: bool) -> bytes:
    """Return the first part: kill on another architecture; allow calls that need no check."""
    rows: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        _return(KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # a second table of numbers for the same calls
        rows += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), _return(EPERM)]
    for low, high in _runs(syscalls.always(machine, metadata).values()):
        rows += [(_JUMP_AT_LEAST, 0, 2, low), (_JUMP_ABOVE, 1, 0, high), _return(ALLOW)]
    return _pack(rows)


@cache  # the same for every child of a PID namespace, and building it is as slow as a fork
def program(machine: str, pid: int, *, metadata: bool) -> bytes:
    """Return the filter for the process ``pid``.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        pid: The process as it sees itself; it may signal no other.
        metadata: Whether owner, mode and times of files may be changed.
    """
    code = allowed(machine, metadata)
    guards = _guards(pid)
    for name, number in syscalls.guarded(machine).items():
        # Every guard ends in a return, so the code after it is reached only by the jump.
        code += _pack([(_JUMP_EQUAL, 0, len(guards[name]) // 8, number)]) + guards[name]
    return code + _pack([_return(EPERM)])

"""Landlock: which files a process may touch, decided by the process itself, for good.

Unlike namespaces it needs no rights at all. It does not hide names and sizes of files, nor does
it stop a change of owner or mode: where there is nothing else, seccomp refuses the latter.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import NamedTuple

from llm_gym.sandbox.inside import kernel

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_GET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_EVERYTHING = (1 << 16) - 1
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def version() -> int:
    """Return the version of Landlock, 0 where there is none."""
    try:
        null, size = ctypes.c_void_p(0), ctypes.c_size_t(0)
        return kernel.syscall("landlock", _CREATE, null, size, ctypes.c_uint(_GET_VERSION))
    except OSError:
        return 0


def handled(abi: int) -> tuple[int, int, int]:
    """Return the file, network and scope rights that a version can take away.

    >>> [f"{rights:b}" for rights in handled(1)]
    ['1111111111111', '0', '0']
    >>> [f"{rights:b}" for rights in handled(7)]
    ['1111111111111111', '11', '11']
    """
    files = 13 + (abi >= 2) + (abi >= 3) + (abi >= 5)
    network = _BIND_AND_CONNECT_TCP if abi >= 4 else 0
    return (1 << files) - 1, network, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0


class Rule(NamedTuple):
    """What may be done with a file, or with everything below a folder."""

    descriptor: int
    rights: int


def rules(
    read: Iterable[str],
    write: Iterable[str] = (),
    devices: Iterable[str] = (),
    execute: bool = False,
) -> list[Rule]:
    """Return rules to read ``read`` and to do as one likes in ``write``; opens the paths."""
    reading = _READ_FILE | _READ_DIR | (_EXECUTE if execute else 0)
    found = []
    for paths, rights in (
        (read, reading),
        (write, _EVERYTHING & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV | _EXECUTE)),
        (devices, _READ_FILE | _WRITE_FILE),
    ):
        for path in paths:
            if os.path.exists(path):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                found.append(Rule(descriptor, rights if folder else rights & _ON_FILES))
    return found


def restrict(abi: int, rules: Iterable[Rule]) -> None:
    """Keep this process, for good, to what ``rules`` allow."""
    rights = handled(abi)
    words = 1 + (abi >= 4) + (abi >= 6)  # the structure has grown with the versions
    attributes = struct.pack(f"={words}Q", *rights[:words])
    size = ctypes.c_size_t(len(attributes))
    ruleset = ctypes.c_int(kernel.syscall("landlock", _CREATE, attributes, size, ctypes.c_uint(0)))
    kind, flags = ctypes.c_int(_RULE_PATH_BENEATH), ctypes.c_uint(0)
    for rule in rules:
        packed = struct.pack("=Qi", rule.rights & rights[0], rule.descriptor)
        kernel.syscall("landlock", _ADD_RULE, ruleset, kind, packed, flags)
    kernel.syscall("landlock", _RESTRICT, ruleset, flags)
    os.close(ruleset.value)

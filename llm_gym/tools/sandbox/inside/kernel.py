"""The few Linux calls that Python does not have, through the C library.

Each raises ``OSError`` with the kernel's reason. Flags and numbers are those of the kernel's
headers, and alike on x86-64 and aarch64.

Landlock, in the second half, limits the files that a process may access. A process applies it to
itself, permanently, without special rights. It does not hide names and sizes of files, and it does
not prevent a change of owner or mode: without other isolation, seccomp refuses that.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID = 0x1, 0x2

# Calls that the C library has no function for; alike on all architectures.
_NUMBERS = {
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_SIGKILL = 9
_CAPABILITY_VERSION_3 = 0x20080522

if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    # Looked up once, before the fork, and not again in every child.
    _mount, _prctl, _syscall, _unshare = _libc.mount, _libc.prctl, _libc.syscall, _libc.unshare
    _capset = _libc.capset
_ZERO = ctypes.c_ulong(0)
_CAPABILITIES_HEADER = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


def _check(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments: object, what: str = "") -> int:
    """Make a system call that the C library has no function for."""
    return _check(what or name, _syscall(ctypes.c_long(_NUMBERS[name]), *arguments))


def unshare(flags: int) -> None:
    """Leave the namespaces in ``flags`` for new ones."""
    _check("unshare", _unshare(ctypes.c_int(flags)))


def setns(descriptor: int, flags: int) -> None:
    """Enter the namespaces in ``flags`` of the process behind a pidfd."""
    _check("setns", _libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount ``source`` at ``target``."""
    texts = [os.fsencode(text) for text in (source, target, kind, options)]
    result = _mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(f"mount {target}", result)


def make_read_only(path: str, recursive: bool = True) -> None:
    """Make the mount at ``path`` read-only, and with it every mount below."""
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    folder, pointer = ctypes.c_int(_AT_FDCWD), ctypes.byref(attributes)
    target = os.fsencode(path)
    syscall("mount_setattr", folder, target, flags, pointer, size, what=f"mount_setattr {path}")


def pivot_root_here() -> None:
    """Make the current folder, a mount point, the root, and unmount the old root."""
    _check("pivot_root", _libc.pivot_root(b".", b"."))
    _check("umount", _libc.umount2(b".", MNT_DETACH))  # the old root lies on top of the new
    os.chdir("/")


def _set(what: str, option: int, value: object) -> None:
    _check(what, _prctl(ctypes.c_int(option), value, _ZERO, _ZERO, _ZERO))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _set("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL))


def be_dumpable() -> None:
    """Own the files under ``/proc/self`` again, which a change of user takes away."""
    _set("prctl", _PR_SET_DUMPABLE, ctypes.c_ulong(1))


def no_new_privileges() -> None:
    """Give up, permanently, the rights that set-user-id programs would add."""
    _set("no_new_privs", _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))


def drop_capabilities() -> None:
    """Give up every capability."""
    header, sets = ctypes.byref(_CAPABILITIES_HEADER), ctypes.byref(_NO_CAPABILITIES)
    _check("capset", _capset(header, sets))


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def install_filter(program: bytes) -> None:
    """Filter every later system call with a seccomp-BPF program."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = _Program(len(program) // 8, ctypes.addressof(buffer))
    # The kernel copies the program, so the buffer may go afterwards.
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    option = ctypes.c_int(_PR_SET_SECCOMP)
    _check("seccomp", _prctl(option, mode, ctypes.byref(filter_), _ZERO, _ZERO))


# --- Landlock -----------------------------------------------------------------------------------

_GET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_EVERYTHING = (1 << 16) - 1
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def landlock_version() -> int:
    """Return the Landlock version of the kernel, 0 for none."""
    try:
        null, size = ctypes.c_void_p(0), ctypes.c_size_t(0)
        return syscall("landlock_create_ruleset", null, size, ctypes.c_uint(_GET_VERSION))
    except OSError:
        return 0


def landlock_rights(abi: int) -> tuple[int, int, int]:
    """Return the file, network and scope rights that a version can take away.

    >>> [f"{rights:b}" for rights in landlock_rights(1)]
    ['1111111111111', '0', '0']
    >>> [f"{rights:b}" for rights in landlock_rights(7)]
    ['1111111111111111', '11', '11']
    """
    files = 13 + (abi >= 2) + (abi >= 3) + (abi >= 5)
    network = _BIND_AND_CONNECT_TCP if abi >= 4 else 0
    return (1 << files) - 1, network, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0


class LandlockRule(NamedTuple):
    """The rights for a file, or for everything below a folder."""

    descriptor: int
    rights: int


def landlock_rules(
    read: Iterable[str], write: Iterable[str] = (), devices: Iterable[str] = ()
) -> list[LandlockRule]:
    """Open the paths; return rules that allow reading ``read`` and anything in ``write``."""
    found = []
    for paths, rights in (
        (read, _READ_FILE | _READ_DIR),
        (write, _EVERYTHING & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV | _EXECUTE)),
        (devices, _READ_FILE | _WRITE_FILE),
    ):
        for path in paths:
            if os.path.exists(path):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                found.append(LandlockRule(descriptor, rights if folder else rights & _ON_FILES))
    return found


def restrict_files(abi: int, rules: Iterable[LandlockRule]) -> None:
    """Limit this process, permanently, to what ``rules`` allow."""
    rights = landlock_rights(abi)
    words = 1 + (abi >= 4) + (abi >= 6)  # the structure has grown with the versions
    attributes = struct.pack(f"={words}Q", *rights[:words])
    size = ctypes.c_size_t(len(attributes))
    ruleset = ctypes.c_int(syscall("landlock_create_ruleset", attributes, size, ctypes.c_uint(0)))
    kind, flags = ctypes.c_int(_RULE_PATH_BENEATH), ctypes.c_uint(0)
    for rule in rules:
        packed = struct.pack("=Qi", rule.rights & rights[0], rule.descriptor)
        syscall("landlock_add_rule", ruleset, kind, packed, flags)
    syscall("landlock_restrict_self", ruleset, flags)
    os.close(ruleset.value)

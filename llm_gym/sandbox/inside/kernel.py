"""The few Linux calls that Python does not have, through the C library.

Each raises ``OSError`` with the kernel's reason. Numbers are those of the kernel's headers and
are alike on x86-64 and aarch64 unless ``seccomp`` says otherwise.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID = 0x1, 0x2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
# Looked up and built here, once: a cell would do it anew for each call.
_mount, _control, _syscall, _unshare = _libc.mount, _libc.prctl, _libc.syscall, _libc.unshare
_capset = _libc.capset
_ZERO = ctypes.c_ulong(0)
_CAPABILITIES_HEADER = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *arguments: object) -> int:
    """Make a system call by its number."""
    return _checked(what, _syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Leave the namespaces in ``flags`` for new ones."""
    _checked("unshare", _unshare(ctypes.c_int(flags)))


def setns(descriptor: int, flags: int) -> None:
    """Enter the namespaces in ``flags`` of the process behind a pidfd."""
    _checked("setns", _libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount ``source`` at ``target``."""
    texts = [os.fsencode(text) for text in (source, target, kind, options)]
    result = _mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _checked(f"mount {target}", result)


def make_read_only(path: str, recursive: bool = True) -> None:
    """Make the mount at ``path`` read-only, and with it every mount below."""
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    syscall(
        f"mount_setattr {path}",
        _MOUNT_SETATTR,
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        flags,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )


def pivot_root_here() -> None:
    """Make the current folder, a mount point, the root, and let go of the old one."""
    _checked("pivot_root", _libc.pivot_root(b".", b"."))
    _checked("umount", _libc.umount2(b".", MNT_DETACH))  # the old root lies on top of the new
    os.chdir("/")


def _set(what: str, option: int, value: object) -> None:
    _checked(what, _control(ctypes.c_int(option), value, _ZERO, _ZERO, _ZERO))


def die_with_parent(signal: int) -> None:
    """Be sent ``signal`` when the parent ends."""
    _set("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal))


def be_dumpable() -> None:
    """Own the files under ``/proc/self`` again, which a change of user takes away."""
    _set("prctl", _PR_SET_DUMPABLE, ctypes.c_ulong(1))


def no_new_privileges() -> None:
    """Give up, for good, what set-user-id programs would add."""
    _set("no_new_privs", _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))


def drop_capabilities() -> None:
    """Give up every capability."""
    header, sets = ctypes.byref(_CAPABILITIES_HEADER), ctypes.byref(_NO_CAPABILITIES)
    _checked("capset", _capset(header, sets))


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def install_filter(program: bytes) -> None:
    """Let a seccomp-BPF program judge every system call from now on."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = _Program(len(program) // 8, ctypes.addressof(buffer))
    # The kernel copies the program, so the buffer may go afterwards.
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    option = ctypes.c_int(_PR_SET_SECCOMP)
    _checked("seccomp", _control(option, mode, ctypes.byref(filter_), _ZERO, _ZERO))

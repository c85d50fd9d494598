"""Ways out of a sandbox, continued: the kernel's own memory, locks, devices and rarer calls."""

from __future__ import annotations

# Hold memory that no limit of the process counts, or be in the way of others.
HOLD = {
    "hold memory in sockets": """
import socket
held, pairs = 0, []
try:
    for _ in range(60):
        pair = socket.socketpair()
        pairs.append(pair)
        for end in pair:
            for option in (7, 8, 32, 33):
                try: end.setsockopt(socket.SOL_SOCKET, option, 2**30)
                except OSError: pass
            end.setblocking(False)
            try:
                while held <= 64 * 2**20: held += end.send(b'x' * 2**16)
            except BlockingIOError: pass
except OSError: pass
if held > 64 * 2**20: print('ESCAPED', held)""",
    "hold memory in datagrams": """
import socket
held, pairs = 0, []
try:
    for _ in range(60):
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        pairs.append(pair)
        for end in pair:
            end.setblocking(False)
            try:
                while True: held += end.send(b'x' * 2**15)
            except (BlockingIOError, OSError): pass
except OSError: pass
if held > 64 * 2**20: print('ESCAPED', held)""",
    "hold memory in pipes": """
import fcntl, os
held, kept = 0, []
try:
    for _ in range(60):
        read, write = os.pipe()
        kept += [read, write]
        try: fcntl.fcntl(write, 1031, 2**20)
        except OSError: pass
        os.set_blocking(write, False)
        try:
            while True: held += os.write(write, b'x' * 2**16)
        except BlockingIOError: pass
except OSError: pass
if held > 16 * 2**20: print('ESCAPED', held)""",
    "hold descriptors in flight": """
import array, socket
held, pairs = 0, []
try:
    for _ in range(400):
        one, other = socket.socketpair()
        one.setblocking(False)
        fill = socket.socketpair()
        fill[0].setblocking(False)
        try:
            while True: held += fill[0].send(b'x' * 2**16)
        except BlockingIOError: pass
        ends = array.array('i', [end.fileno() for end in fill])
        one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
        pairs.append((one, other))
        for end in fill: end.close()
except OSError: pass
if held > 128 * 2**20: print('ESCAPED', held)""",
    "hold locks without end": """
import fcntl, os, struct
file = os.open('locks', os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 2**21)
made = 0
try:
    for at in range(0, 2**13, 2):
        fcntl.fcntl(file, fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, at, 1, 0))
        made += 1
except OSError: pass
twin = os.open('locks', os.O_RDWR)
seen = fcntl.fcntl(twin, 36, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 1, 0))
if struct.unpack('hhqqi', seen)[0] != fcntl.F_UNLCK: print('ESCAPED', made)""",
    "lock a file of the host": """
import fcntl, json
first, second = open(json.__file__), open(json.__file__)
fcntl.flock(first, fcntl.LOCK_EX)
try: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: print('ESCAPED')""",
    "queue signals and timers without end": """
import ctypes
libc, made = ctypes.CDLL(None), 0
timer = ctypes.c_void_p()
for made in range(100_000):
    if libc.timer_create(1, None, ctypes.byref(timer)) != 0: break
if made > 1000: print('ESCAPED', made)""",
    "start more tasks than it may": """
import threading, time
threading.stack_size(2**16)
made = 0
try:
    for made in range(3000): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
except RuntimeError: pass
if made > 1000: print('ESCAPED', made)""",
    "map more than the kernel has areas for": """
import mmap
made, kept = 0, []
try:
    for made in range(200_000): kept.append(mmap.mmap(-1, 4096, prot=1 + made % 2))
except (OSError, MemoryError): pass
if made > 140_000: print('ESCAPED', made)""",
}

# Be somebody, or change what everybody has.
RIGHTS = {
    "be root outside": """
import os
if 0 in (os.getuid(), os.geteuid(), os.getgid()): print('ESCAPED', os.getuid())""",
    "change owner, mode or times of devices": """
import os
for name in ('null', 'zero', 'full', 'random', 'urandom'):
    path = '/dev/' + name
    for act in (lambda: os.chmod(path, 0o600), lambda: os.utime(path, (0, 0)),
                lambda: os.chown(path, os.getuid(), os.getgid()), lambda: os.unlink(path),
                lambda: os.setxattr(path, 'user.x', b'y')):
        try: act()
        except OSError: continue
        print('ESCAPED', path)""",
    "feed the kernel's randomness": """
import fcntl
for request in (0x40045201, 0x40085203, 0x5204, 0x5206, 0x5207):
    try: fcntl.ioctl(open('/dev/urandom', 'wb'), request, b'\\0' * 64)
    except OSError: continue
    print('ESCAPED', hex(request))""",
    "write to /proc and /sys": """
for path in ('/proc/self/oom_score_adj', '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern',
             '/proc/self/uid_map', '/sys/kernel/uevent_helper', '/proc/self/mem',
             '/sys/fs/cgroup/cgroup.procs', '/proc/sys/vm/drop_caches'):
    try: open(path, 'w').write('0')
    except OSError: continue
    print('ESCAPED', path)""",
    "read what machines keep their secrets in": """
import os
for path in ('/etc/shadow', '/root', '/home', '/var/log', '/boot', '/run/secrets', '/sys/firmware',
             '/proc/1/environ', '/var/lib', '/etc/ssl/private', '/proc/kcore', '/proc/config.gz'):
    try: found = os.listdir(path) if os.path.isdir(path) else [open(path, 'rb').read(10)]
    except OSError: continue
    below = [name for name in found if name not in ('.pyenv', '.local')]
    if below: print('ESCAPED', path, below)""",
    "open by every kind of flag": """
import os
for flags in (os.O_PATH, os.O_TMPFILE | os.O_RDWR, os.O_DIRECTORY, os.O_RDWR, os.O_CREAT):
    try: handle = os.open('$SECRET', flags, 0o600)
    except OSError: continue
    try: data = os.read(handle, 10)
    except OSError: continue
    print('ESCAPED', flags, data)""",
    "swap a file outside for its own": """
import ctypes, os
open('mine', 'w').write('x')
libc = ctypes.CDLL(None)
for flags in (0, 1, 2, 4):
    if libc.renameat2(-100, b'mine', -100, b'$SECRET', flags) == 0: print('ESCAPED', flags)""",
    "make a program that keeps its owner's rights": """
import os, subprocess
open('tool', 'w').write('#!/bin/sh\\nid\\n')
os.chmod('tool', 0o6755)
print('ESCAPED', subprocess.run(['./tool'], capture_output=True, check=True).stdout)""",
    "answer for somebody else through a socket": """
import array, os, socket
for number in range(3, 40):
    try:
        plug = socket.socket(fileno=os.dup(number))
        null = array.array('i', [os.open('/dev/null', os.O_RDONLY)])
        plug.sendmsg([b'k'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])
    except OSError: pass""",
    "be root again by a new user namespace": """
import ctypes, os
libc = ctypes.CDLL(None)
if libc.unshare(0x10000000) == 0 or libc.unshare(0x10000000 | 0x20000) == 0: print('ESCAPED')
call = libc.syscall
for flags in (0x10000000 | 17, 0x20000000 | 17, 0x40000000 | 17):
    pid = call(56, flags, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: print('ESCAPED', hex(flags))""",
}

# Calls that no Python program needs, by their numbers on x86-64.
_CALLS: dict[str, list[tuple[int, tuple[object, ...]]]] = {
    "load code into the kernel": [
        (175, (0, 0, 0)), (313, (0, b"", 0)), (321, (5, 0, 0)), (246, (0, 0, 0, 0)),
    ],
    "watch the whole machine": [
        (298, (0, 0, -1, -1, 0)), (300, (0, 0)), (253, ()), (294, (0,)), (103, (3, 0, 0)),
    ],
    "set the clock": [(164, (0, 0)), (227, (0, 0)), (159, (0,)), (305, (0, 0))],
    "switch the machine off": [
        (169, (0xFEE1DEAD, 672274793, 0)), (167, (b"x", 0)), (168, (b"x",)), (163, (b"x",)),
    ],
    "reach ports of the machine": [(172, (3,)), (173, (0, 65535, 1))],
    "keep keys in the kernel": [
        (248, (b"user", b"x", b"y", 1, -2)), (249, (b"user", b"x", 0, -2)), (250, (0, -3, 1)),
    ],
    "open files by their handles": [(303, (-100, b"/", 0, 0, 0)), (304, (-100, 0, 0))],
    "take descriptors of others": [
        (438, (0, 0, 0)), (434, (1, 0)), (424, (0, 9, 0, 0)), (312, (1, 1, 0, 0, 0)),
    ],
    "mount by the new calls": [
        (428, (-100, b"/", 1)), (429, (0, b"", -100, b"/", 4)), (430, (b"tmpfs", 0)),
        (442, (-100, b"/", 0, 0, 0)),
    ],
    "mount by the old calls": [
        (165, (b"none", b"/", b"tmpfs", 0, 0)), (166, (b"/", 2)), (155, (b".", b".")),
        (161, (b"/",)),
    ],
    "make asynchronous requests": [
        (425, (8, 0)), (206, (8, 0)), (426, (0, 0, 0, 0, 0, 0)), (427, (0, 0, 0, 0)),
    ],
    "share memory with strangers": [
        (29, (7, 4096, 0o1666)), (319, (b"x", 0)), (447, (0,)), (240, (b"/x", 66, 438, 0)),
        (68, (7, 0o1666)),
    ],
    "write to memory of others": [
        (311, (1, 0, 1, 0, 1, 0)), (310, (1, 0, 1, 0, 1, 0)), (101, (16, 1, 0, 0)),
        (440, (0, 0, 1, 20, 0)),
    ],
    "handle page faults of its own": [(323, (0,)), (323, (1,)), (323, (2048,))],
    "move to another processor or class": [
        (203, (0, 8, b"\\xff" * 8)), (144, (0, 1, b"\\1\\0\\0\\0")), (314, (0, 0, 0)),
        (251, (1, 0, 0x2000)), (141, (0, 0, -20)),
    ],
    "change its own kind": [
        (135, (0x0040000,)), (154, (1, b"\\0" * 16, 16)),
    ],
    "undo its own walls": [
        (317, (1, 0, 0)), (444, (0, 0, 0)), (446, (0, 0)), (308, (0, 0)), (272, (0x20000,)),
    ],
    "signal by rarer calls": [
        (129, (1, 9, 0)), (297, (1, 1, 9, 0)), (200, (1, 9)), (424, (0, 9, 0, 0)),
    ],
    "use sockets by number": [
        (41, (2, 1, 0)), (41, (16, 3, 0)), (41, (17, 3, 0)), (41, (1, 1, 0)), (42, (0, 0, 0)),
        (49, (0, 0, 0)), (50, (0, 1)), (43, (0, 0, 0)),
    ],
    "move pages and pipes about": [
        (256, (0, 0, 0, 0)), (279, (0, 1, 0, 0, 0, 0)), (275, (0, 0, 1, 0, 1, 0)),
        (276, (0, 1, 1, 0)), (278, (1, 0, 1, 0)),
    ],
    "limit or quota others": [(179, (0, b"x", 0, 0)), (443, (0, 0, 0, 0))],
    "become another user by number": [
        (105, (0,)), (106, (0,)), (113, (0, 0)), (114, (0, 0)), (117, (0, 0, 0)),
        (119, (0, 0, 0)), (122, (0,)), (126, (b"\\0" * 8, b"\\xff" * 24)),
    ],
}  # fmt: skip


def _by_number(calls: list[tuple[int, tuple[object, ...]]]) -> str:
    return f"""
import ctypes, platform
call = ctypes.CDLL(None, use_errno=True).syscall
if platform.machine() == 'x86_64':
    for number, arguments in {calls!r}:
        got = call(number, *arguments)
        if got >= 0 and number not in (122, 123, 135): print('ESCAPED', number, got)
        if number == 135 and got == 0x0040000: print('ESCAPED', number)"""


NUMBERS = {name: _by_number(calls) for name, calls in _CALLS.items()}

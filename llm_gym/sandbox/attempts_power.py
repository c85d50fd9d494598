"""Ways out of a sandbox, continued: gaining rights, and using up what others need."""

from __future__ import annotations

# Get rights that it was not given.
GAIN = {
    "become root": """
import os
for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0),
            lambda: os.setgroups([0])):
    try: act()
    except OSError: continue
    print('ESCAPED', os.getuid())""",
    "break out of a chroot": """
import os
os.mkdir('jail')
os.chroot('jail')
for _ in range(40): os.chdir('..')
os.chroot('.')
print('ESCAPED', os.listdir('/'))""",
    "mount, unshare and enter namespaces": """
import ctypes, os
libc = ctypes.CDLL(None)
for act in (lambda: libc.unshare(0x10000000), lambda: libc.unshare(0x20000),
            lambda: libc.mount(b'none', b'/sandbox', b'tmpfs', 0, None),
            lambda: libc.umount2(b'/sandbox', 2), lambda: libc.pivot_root(b'.', b'.'),
            lambda: libc.setns(0, 0), lambda: libc.sethostname(b'x', 1)):
    if act() == 0: print('ESCAPED')""",
    "make a device": """
import os, stat
os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))
print('ESCAPED', open('disk', 'rb').read(10))""",
    "raise its own limits": """
import resource
for name in ('AS', 'FSIZE', 'NOFILE', 'CPU', 'CORE', 'MEMLOCK'):
    kind = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(kind)
    try: resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
    except (OSError, ValueError): continue
    if hard != resource.RLIM_INFINITY: print('ESCAPED', name)""",
    "run a program": """
import os, subprocess, sys
for command in (['/bin/sh', '-c', 'echo hi'], ['/usr/bin/id'], [sys.executable, '-c', 'print(1)']):
    try: print('ESCAPED', subprocess.run(command, capture_output=True, check=True).stdout)
    except (OSError, subprocess.SubprocessError): pass
os.execv(sys.executable, ['python', '-c', 'print("ESCAPED")'])""",
    "import by a disguised name": """
import importlib
module = importlib.import_module('sub' + 'process')
print('ESCAPED', module.check_output(['/usr/bin/id']))""",
    "fork": """
import os
if os.fork() == 0: os._exit(0)
print('ESCAPED')""",
    "make calls by their numbers": """
import ctypes, platform
call = ctypes.CDLL(None, use_errno=True).syscall
socket_, x32 = (41, 0x40000000) if platform.machine() == 'x86_64' else (198, 0)
for number, arguments in (
    (socket_, (2, 1, 0)), (socket_ + x32, (2, 1, 0)), (425, (8, 0)), (435, (0, 0)),
    (438, (0, 0, 0)), (248, (b'user', b'x', b'y', 1, -2)), (272, (0x10000000,)),
    (298, (0, 0, -1, -1, 0)), (321, (0, 0, 0)), (323, (0,)),
):
    if call(number, *arguments) >= 0: print('ESCAPED', number)""",
    "make calls of another architecture": """
import ctypes, mmap, platform
if platform.machine() == 'x86_64':  # mov eax, 359 (socket); ...; int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex('53b867010000bb02000000b901000000ba00000000cd805bc3'))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() >= 0: print('ESCAPED')""",
    "hand in a forged or endless last word": """
import os
for number in range(3, 64):
    for message in (b'\\xff' * 70000, b'\\0\\0\\0\\x10{"exit": "zero"}',
                    b'\\0\\0\\x40\\0' + b'[' * 16384):
        try: os.write(number, message)
        except OSError: pass""",
    "close what it was given": "import os\nos.closerange(0, 1024)",
}

# Use up what others need, or refuse to end.
EXHAUST = {
    "fork without end": """
import os
made = 0
while made < 200:
    try: os.fork(); made += 1
    except OSError: break
if made >= 100: print('ESCAPED', made)""",
    "start threads without end": """
import threading, time
threading.stack_size(2**20 // 4)
made = 0
try:
    for made in range(5000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError: pass
if made > 2500: print('ESCAPED', made)""",
    "take all memory": """
taken = []
try:
    for _ in range(400): taken.append(bytearray(16 * 2**20))
except MemoryError: pass
if len(taken) > 128: print('ESCAPED', len(taken))""",
    "take memory by mapping it": """
import mmap
taken = []
try:
    for _ in range(400): taken.append(mmap.mmap(-1, 16 * 2**20))
except (OSError, MemoryError): pass
if len(taken) > 128: print('ESCAPED', len(taken))""",
    "take memory in one go": "x = 10 ** (10 ** 10)",
    "write without end": """
import sys
while True: sys.stdout.write('x' * 2**16)""",
    "write errors without end": """
import os
while True: os.write(2, b'x' * 2**16)""",
    "open files without end": """
taken = []
try:
    for _ in range(5000): taken.append(open('/dev/null'))
except OSError: pass
if len(taken) > 1000: print('ESCAPED', len(taken))""",
    "compute without end": "while True: pass",
    "compute without end in one instruction": "'a' * 10 in 'b'; (1 << 30_000_000) ** 3 % 7",
    "sleep through every signal": """
import signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True: time.sleep(60)""",
    "block every signal": """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True: pass""",
    "catch everything": """
while True:
    try:
        while True: pass
    except BaseException: pass""",
    "wait at exit": """
import atexit, threading, time
atexit.register(time.sleep, 60)
threading.Thread(target=time.sleep, args=(60,)).start()""",
    "daemonise": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(60)""",
    "stop itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    "crash by a null pointer": "import ctypes\nctypes.string_at(0)",
    "crash by recursion": """
import sys
sys.setrecursionlimit(10**9)
def f(n): return f(n + 1) + len(repr(n))
f(0)""",
    "crash the parser": "eval('(' * 10**6 + ')' * 10**6)",
    "raise what cannot be shown": """
class Worst(BaseException):
    def __str__(self): raise self
    __repr__ = __str__
raise Worst()""",
    "replace standard output": "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None\n1 / 0",
}

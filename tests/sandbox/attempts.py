"""Ways out of a sandbox, as code that tries them.

Each prints ``ESCAPED`` and what it got hold of if it succeeds; ``llm_gym.sandbox.check`` looks from
outside at what it cannot judge itself. ``$SECRET`` is a file outside that holds a secret, ``$PORT``
a port that somebody listens at, ``$PID`` the process outside. System calls are made by the numbers
of the machine at hand.
"""

import os
from ast import literal_eval

from llm_gym.sandbox.inside.syscalls import MACHINES, table

MACHINE = os.uname().machine
NUMBERS = table(MACHINE if MACHINE in MACHINES else "x86_64")
X32_BIT = 0x40000000

# Read something that is none of its business.
READ = {
    "read /etc/passwd": "print('ESCAPED', open('/etc/passwd').read())",
    "read a file outside": "print('ESCAPED', open('$SECRET').read())",
    "read it through a symbolic link": """
import os
os.symlink('$SECRET', 'link')
print('ESCAPED', open('link').read())""",
    "read it through a hard link": """
import os
os.link('$SECRET', 'link')
print('ESCAPED', open('link').read())""",
    "read it by a path with dots": """
import os
print('ESCAPED', open('../' * 40 + '$SECRET'.lstrip('/')).read())""",
    "list the folder it lies in": """
import os
print('ESCAPED', os.listdir(os.path.dirname('$SECRET')))""",
    "read the parent's environment": """
import ctypes, os
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
found = [os.environ.get('LLM_GYM_SECRET'), libc.getenv(b'LLM_GYM_SECRET')]
if any(found): print('ESCAPED', found)""",
    "read /proc": """
import os
for pid in ('self', 'thread-self', '1', str(os.getppid()), '$PID'):
    for name in ('environ', 'cmdline', 'maps', 'mem', 'status', 'mountinfo'):
        try: print('ESCAPED', pid, name, open(f'/proc/{pid}/{name}', 'rb').read(100))
        except OSError: pass""",
    "walk out through /proc": """
for way in ('/proc/self/root', '/proc/self/cwd/../..', '/proc/1/root', '/proc/$PID/root'):
    try: print('ESCAPED', open(way + '$SECRET').read())
    except OSError: pass""",
    "use descriptors left open": """
import os
for number in range(3, 1024):
    try: data = os.pread(number, 100, 0)
    except OSError: continue
    print('ESCAPED', number, data)""",
    "open devices": """
for name in ('mem', 'kmem', 'port', 'kmsg', 'sda', 'vda', 'nvme0n1', 'fuse', 'kvm', 'tty', 'ptmx',
             'net/tun', 'vsock', 'userfaultfd'):
    try: print('ESCAPED', name, open(f'/dev/{name}', 'rb'))
    except OSError: pass""",
}

# Change something outside.
WRITE = {
    "write to a file outside": "open('$SECRET', 'w').write('overwritten'); print('ESCAPED')",
    "empty a file outside": """
import os
for act in (lambda: os.truncate('$SECRET', 0), lambda: os.open('$SECRET', os.O_TRUNC)):
    try: act()
    except OSError: continue
    print('ESCAPED')""",
    "delete or move a file outside": """
import os
for act in (os.unlink, lambda path: os.rename(path, 'mine'),
            lambda path: os.rename(path, path + '2')):
    try: act('$SECRET')
    except OSError: continue
    print('ESCAPED')""",
    "change mode, owner or times of files outside": """
import json, os
for path in ('$SECRET', json.__file__):
    for act in (lambda: os.chmod(path, 0o777), lambda: os.utime(path, (0, 0)),
                lambda: os.chown(path, os.getuid(), os.getgid()),
                lambda: os.fchmod(os.open(path, os.O_RDONLY), 0o777)):
        try: act()
        except OSError: continue
        print('ESCAPED', path)""",
    "plant a module in the interpreter": """
import json, os, sys
for folder in {os.path.dirname(json.__file__), *sys.path[1:]}:
    try: open(os.path.join(folder, 'planted.py'), 'w').write('x = 1')
    except OSError: continue
    print('ESCAPED', folder)""",
    "write where everybody may": """
for folder in ('/dev/shm', '/var/tmp', '/run', '/run/user/0', '/root', '/home', '/etc', '/'):
    try: open(folder + '/planted', 'w').write('x')
    except OSError: continue
    print('ESCAPED', folder)""",
    "fill the disk": """
block, written = b'x' * 2**20, 0
try:
    for number in range(400):
        with open(f'f{number}', 'wb') as file:
            for _ in range(10): written += file.write(block)
except OSError: pass
if written > 64 * 2**20: print('ESCAPED', written)""",
    "fill the table of files": """
import os
made = 0
try:
    for made in range(20_000): os.mkdir(f'd{made}')
except OSError: pass
if made > 5_000: print('ESCAPED', made)""",
}

# Reach somebody over the network, or a process.
REACH = {
    "connect over TCP": """
import socket
print('ESCAPED', socket.create_connection(('127.0.0.1', $PORT), 1))""",
    "send a datagram": """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $PORT))
print('ESCAPED')""",
    "resolve a name": "import socket\nprint('ESCAPED', socket.getaddrinfo('example.com', 80))",
    "listen": """
import socket
socket.create_server(('127.0.0.1', 0))
print('ESCAPED')""",
    "connect to a socket in a file or an abstract one": """
import socket
for path in ('/run/dbus/system_bus_socket', '/var/run/docker.sock', '$SECRET.socket', '\\0$PORT'):
    try:
        plug = socket.socket(socket.AF_UNIX)
        plug.connect(path)
    except OSError: continue
    print('ESCAPED', path)""",
    "open a raw, netlink or packet socket": """
import socket
for family, kind in ((2, 3), (16, 3), (17, 3), (40, 1), (38, 5)):
    try: print('ESCAPED', socket.socket(family, kind))
    except OSError: pass""",
    "signal processes outside": """
import ctypes, os, signal
libc = ctypes.CDLL(None)
for pid in ($PID, os.getppid(), 2, 3):
    if pid in (0, os.getpid()): continue
    for act in (lambda: os.kill(pid, 10), lambda: os.killpg(pid, 10),
                lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 10),
                lambda: 1 / (libc.sigqueue(pid, 10, 0) == 0)):
        try: act()
        except (OSError, ZeroDivisionError): continue
        print('ESCAPED', pid)""",
    "have the kernel signal a process outside": """
import fcntl, os, socket
one, other = socket.socketpair()
fcntl.fcntl(one, fcntl.F_SETOWN, $PID)
fcntl.fcntl(one, fcntl.F_SETSIG, 10)
fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
other.send(b'x')""",
    "signal everybody": """
import os
for target in (-1, 0):
    try: os.kill(target, 10)
    except OSError: pass""",
    "trace or read a process outside": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in ($PID, os.getppid() or 1):
    if libc.ptrace(16, pid, 0, 0) == 0: print('ESCAPED ptrace')
    buffer = ctypes.create_string_buffer(8)
    span = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
    if pid == os.getpid(): continue
    if libc.process_vm_readv(pid, span, 1, span, 1, 0) > 0: print('ESCAPED')""",
    "leave a message in shared memory": """
import ctypes
libc = ctypes.CDLL(None)
for act in (lambda: libc.shmget(7, 4096, 0o1666), lambda: libc.msgget(7, 0o1666),
            lambda: libc.semget(7, 1, 0o1666), lambda: libc.memfd_create(b'x', 0)):
    if act() >= 0: print('ESCAPED')""",
}

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
    "make calls of the second table of x86-64": f"""
import ctypes
call = ctypes.CDLL(None, use_errno=True).syscall
if call({NUMBERS["socket"] + X32_BIT}, 2, 1, 0) >= 0: print('ESCAPED')""",
    "make calls of another architecture": """
import ctypes, mmap, platform
if platform.machine() == 'x86_64':  # mov eax, 359 (socket); ...; int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex('53b867010000bb02000000b901000000ba00000000cd805bc3'))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() >= 0: print('ESCAPED')""",
}

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
    "be root again by a new user namespace": f"""
import ctypes, os
libc = ctypes.CDLL(None)
if libc.unshare(0x10000000) == 0 or libc.unshare(0x10000000 | 0x20000) == 0: print('ESCAPED')
call = libc.syscall
for flags in (0x10000000 | 17, 0x20000000 | 17, 0x40000000 | 17):
    pid = call({NUMBERS["clone"]}, flags, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: print('ESCAPED', hex(flags))""",
}

# Calls that no Python program needs, by number.
_CALLS = {
    "load code into the kernel": r"""
        init_module 0 0 0; finit_module 0 b'' 0; bpf 5 0 0; kexec_load 0 0 0 0""",
    "watch the whole machine": r"""
        perf_event_open 0 0 -1 -1 0; fanotify_init 0 0; inotify_init; inotify_init1 0; syslog
        3 0 0""",
    "set the clock": r"""settimeofday 0 0; clock_settime 0 0; adjtimex 0; clock_adjtime 0 0""",
    "switch the machine off": r"""
        reboot 0xFEE1DEAD 672274793 0; swapon b'x' 0; swapoff b'x'; acct b'x'""",
    "reach ports of the machine": r"""iopl 3; ioperm 0 65535 1""",
    "keep keys in the kernel": r"""
        add_key b'user' b'x' b'y' 1 -2; request_key b'user' b'x' 0 -2; keyctl 0 -3 1""",
    "open files by their handles": r"""
        name_to_handle_at -100 b'/' 0 0 0; open_by_handle_at -100 0 0""",
    "take descriptors of others": r"""
        pidfd_getfd 0 0 0; pidfd_open 1 0; pidfd_send_signal 0 9 0 0; kcmp 1 1 0 0 0""",
    "mount by the new calls": r"""
        open_tree -100 b'/' 1; move_mount 0 b'' -100 b'/' 4; fsopen b'tmpfs' 0; mount_setattr
        -100 b'/' 0 0 0""",
    "mount by the old calls": r"""
        mount b'none' b'/' b'tmpfs' 0 0; umount2 b'/' 2; pivot_root b'.' b'.'; chroot b'/'""",
    "make asynchronous requests": r"""
        io_uring_setup 8 0; io_setup 8 0; io_uring_enter 0 0 0 0 0 0; io_uring_register 0 0 0
        0""",
    "share memory with strangers": r"""
        shmget 7 4096 0o1666; memfd_create b'x' 0; memfd_secret 0; mq_open b'/x' 66 438 0;
        msgget 7 0o1666""",
    "write to memory of others": r"""
        process_vm_writev 1 0 1 0 1 0; process_vm_readv 1 0 1 0 1 0; ptrace 16 1 0 0;
        process_madvise 0 0 1 20 0""",
    "handle page faults of its own": r"""userfaultfd 0; userfaultfd 1; userfaultfd 2048""",
    "move to another processor or class": r"""
        sched_setaffinity 0 8 b'\xff\xff\xff\xff\xff\xff\xff\xff'; sched_setscheduler 0 1
        b'\1\0\0\0'; sched_setattr 0 0 0; ioprio_set 1 0 0x2000; setpriority 0 0 -20""",
    "change its own kind": r"""
        personality 0x0040000; modify_ldt 1 b'\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' 16""",
    "undo its own walls": r"""
        seccomp 1 0 0; landlock_create_ruleset 0 0 0; landlock_restrict_self 0 0; setns 0 0;
        unshare 0x20000""",
    "signal by rarer calls": r"""
        rt_sigqueueinfo 1 9 0; rt_tgsigqueueinfo 1 1 9 0; tkill 1 9; pidfd_send_signal 0 9 0 0""",
    "use sockets by number": r"""
        socket 2 1 0; socket 16 3 0; socket 17 3 0; socket 1 1 0; connect 0 0 0; bind 0 0 0;
        listen 0 1; accept 0 0 0""",
    "move pages and pipes about": r"""
        migrate_pages 0 0 0 0; move_pages 0 1 0 0 0 0; splice 0 0 1 0 1 0; tee 0 1 1 0;
        vmsplice 1 0 1 0""",
    "limit or quota others": r"""quotactl 0 b'x' 0 0; quotactl_fd 0 0 0 0""",
    "become another user by number": r"""
        setuid 0; setgid 0; setreuid 0 0; setregid 0 0; setresuid 0 0 0; setresgid 0 0 0;
        setfsuid 0; capset b'\0\0\0\0\0\0\0\0' b'\xff\xff\xff\xff\xff\xff\xff\xff'""",
}


def _by_number(calls):
    rows = [call.split() for call in calls.split(";")]
    rows = [row for row in rows if row[0] in NUMBERS]
    known = [(name, NUMBERS[name], *map(literal_eval, arguments)) for name, *arguments in rows]
    return f"""
import ctypes
call = ctypes.CDLL(None, use_errno=True).syscall
for name, number, *arguments in {known!r}:
    got = call(number, *arguments)
    if got >= 0 and name not in ('setfsuid', 'personality'): print('ESCAPED', name, got)
    if name == 'personality' and got == 0x0040000: print('ESCAPED', name)"""


BY_NUMBER = {name: _by_number(calls) for name, calls in _CALLS.items()}

# Use up what others need, refuse to end, or spoil what comes next: no way out, but the sandbox must
# go on. Time and memory are bounded without isolation too.
ENDINGS = {
    "hand in a forged or endless last word": """
import os
for number in range(3, 64):
    for message in (b'\\xff' * 70000, b'\\0\\0\\0\\x10{"exit": "zero"}',
                    b'\\0\\0\\x40\\0' + b'[' * 16384):
        try: os.write(number, message)
        except OSError: pass""",
    "close what it was given": "import os\nos.closerange(0, 1024)",
    "answer for somebody else through a socket": """
import array, os, socket
for number in range(3, 40):
    try:
        plug = socket.socket(fileno=os.dup(number))
        null = array.array('i', [os.open('/dev/null', os.O_RDONLY)])
        plug.sendmsg([b'k'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])
    except OSError: pass""",
    "find what the call before left behind": """
import builtins, os
if hasattr(builtins, 'left_behind') or os.path.exists('left_behind'): print('ESCAPED')
builtins.left_behind = True
open('left_behind', 'w').write('x')""",
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

ESCAPES = {**READ, **WRITE, **REACH, **GAIN, **HOLD, **RIGHTS, **BY_NUMBER}

HARMFUL = {
    "change mode, owner or times of files outside", "plant a module in the interpreter",
    "write where everybody may", "fill the disk", "signal processes outside", "signal everybody",
    "trace or read a process outside", "mount, unshare and enter namespaces",
    "change owner, mode or times of devices", "feed the kernel's randomness",
    "write to /proc and /sys", "load code into the kernel", "switch the machine off",
    "mount by the old calls", "write to memory of others", "signal by rarer calls",
    "start more tasks than it may",
}  # fmt: skip
"""Never tried without isolation: to succeed would do harm."""

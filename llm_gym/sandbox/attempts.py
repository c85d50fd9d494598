r"""Ways out of a sandbox that have been tried, as code to try them again.

Each prints ``ESCAPED`` and what it got hold of if it succeeds. ``check`` runs them and looks from
outside at what they cannot judge themselves. ``$SECRET`` is a file outside that holds a secret,
``$PORT`` a port that somebody listens at, ``$PID`` the process outside.
"""

from __future__ import annotations

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
    "find what the call before left behind": """
import builtins, os
if hasattr(builtins, 'left_behind') or os.path.exists('left_behind'): print('ESCAPED')
builtins.left_behind = True
open('left_behind', 'w').write('x')""",
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

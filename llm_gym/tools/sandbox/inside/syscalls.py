"""System call numbers by architecture, for the filter.

A row is a name, its number on x86-64 and its number on aarch64; a dash means that the
architecture does not have the call. The numbers are those of the kernel's ``unistd`` headers.
"""

import re
from functools import cache

# Memory, threads, the process itself, its clocks and its signals, open descriptors, both ends of a
# socket pair, and paths (which mounts or Landlock limit).
_ALWAYS = """
arch_prctl 158 -; brk 12 214; futex 202 98; futex_waitv 449 449; get_robust_list 274 100;
getcpu 309 168; madvise 28 233; membarrier 324 283; mincore 27 232; mmap 9 222; mprotect 10 226;
mremap 25 216; msync 26 227; munmap 11 215; restart_syscall 219 128; rseq 334 293;
sched_get_priority_max 146 125; sched_get_priority_min 147 126; sched_getaffinity 204 123;
sched_getparam 143 121; sched_getscheduler 145 120; sched_rr_get_interval 148 127;
sched_yield 24 124; set_robust_list 273 99; set_tid_address 218 96

exit 60 93; exit_group 231 94; getegid 108 177; geteuid 107 175; getgid 104 176;
getgroups 115 158; getpgid 121 155; getpgrp 111 -; getpid 39 172; getppid 110 173;
getpriority 140 141; getresgid 120 150; getresuid 118 148; getrlimit 97 163; getrusage 98 165;
getsid 124 156; gettid 186 178; getuid 102 174; setpgid 109 154; setrlimit 160 164;
setsid 112 157; sysinfo 99 179; times 100 153; umask 95 166; uname 63 160; wait4 61 260;
waitid 247 95

alarm 37 -; clock_getres 229 114; clock_gettime 228 113; clock_nanosleep 230 115;
getitimer 36 102; getrandom 318 278; gettimeofday 96 169; nanosleep 35 101; pause 34 -;
setitimer 38 103; time 201 -; timer_create 222 107; timer_delete 226 111;
timer_getoverrun 225 109; timer_gettime 224 108; timer_settime 223 110; timerfd_create 283 85;
timerfd_gettime 287 87; timerfd_settime 286 86

rt_sigaction 13 134; rt_sigpending 127 136; rt_sigprocmask 14 135; rt_sigreturn 15 139;
rt_sigsuspend 130 133; rt_sigtimedwait 128 137; sigaltstack 131 132; signalfd 282 -;
signalfd4 289 74

close 3 57; close_range 436 436; dup 32 23; dup2 33 -; dup3 292 24; epoll_create 213 -;
epoll_create1 291 20; epoll_ctl 233 21; epoll_pwait 281 22; epoll_pwait2 441 441;
epoll_wait 232 -; eventfd 284 -; eventfd2 290 19; fadvise64 221 223; fallocate 285 47;
fdatasync 75 83; fstat 5 80; fstatfs 138 44; fsync 74 82;
ftruncate 77 46; getdents 78 -; getdents64 217 61; lseek 8 62; pipe 22 -; pipe2 293 59;
poll 7 -; ppoll 271 73; pread64 17 67; preadv 295 69; preadv2 327 286; pselect6 270 72;
pwrite64 18 68; pwritev 296 70; pwritev2 328 287; read 0 63; readahead 187 213; readv 19 65;
select 23 -; sendfile 40 71; copy_file_range 326 285; write 1 64; writev 20 66

getpeername 52 205; getsockname 51 204; getsockopt 55 209; recvfrom 45 207; recvmmsg 299 243;
recvmsg 47 212; sendmmsg 307 269; sendmsg 46 211; sendto 44 206;
shutdown 48 210

access 21 -; chdir 80 49; creat 85 -; faccessat 269 48; faccessat2 439 439; fchdir 81 50;
fgetxattr 193 10; flistxattr 196 13; getcwd 79 17; getxattr 191 8; lgetxattr 192 9; link 86 -;
linkat 265 37; listxattr 194 11; llistxattr 195 12; lstat 6 -; mkdir 83 -; mkdirat 258 34;
newfstatat 262 79; open 2 -; openat 257 56; openat2 437 437; readlink 89 -; readlinkat 267 78;
rename 82 -; renameat 264 38; renameat2 316 276; rmdir 84 -; stat 4 -; statfs 137 43;
statx 332 291; symlink 88 -; symlinkat 266 36; truncate 76 45; unlink 87 -; unlinkat 263 35
"""

# Owner, mode and times of files: harmless if all other files are mounted read-only.
_METADATA = """
chmod 90 -; fchmod 91 52; fchmodat 268 53; fchmodat2 452 452; fchown 93 55; fchownat 260 54;
futimesat 261 -; lchown 94 -; chown 92 -; utime 132 -; utimensat 280 88; utimes 235 -;
fsetxattr 190 7; setxattr 188 5; lsetxattr 189 6
"""

# Allowed for some arguments only.
_GUARDED = """
clone 56 220; clone3 435 435; kill 62 129; tgkill 234 131;
prctl 157 167; prlimit64 302 261; socketpair 53 199; ioctl 16 29; fcntl 72 25; flock 73 32;
setsockopt 54 208
"""

_ROW = re.compile(r"(\w+) (\d+|-) (\d+|-)")
MACHINES = ("x86_64", "aarch64")


def _numbers(rows: str, machine: str) -> dict[str, int]:
    column = 1 + MACHINES.index(machine)
    return {row[0]: int(row[column]) for row in _ROW.findall(rows) if row[column] != "-"}


def always(machine: str, metadata: bool) -> dict[str, int]:
    """Return the calls that are allowed whatever their arguments.

    >>> always("aarch64", metadata=False)["openat"], "chmod" in always("x86_64", metadata=True)
    (56, True)
    """
    return _numbers(_ALWAYS + _METADATA if metadata else _ALWAYS, machine)


@cache
def guarded(machine: str) -> dict[str, int]:
    """Return the calls whose arguments decide."""
    return _numbers(_GUARDED, machine)

"""Every system call that the tests know by number, those among them that the sandbox refuses."""

from functools import cache

from llm_gym.tools.sandbox.inside import syscalls

REFUSED = """
mount 165 40; umount2 166 39; pivot_root 155 41; chroot 161 51; setns 308 268; unshare 272 97;
mount_setattr 442 442; open_tree 428 428; move_mount 429 429; fsopen 430 430; mknod 133 -;
mknodat 259 33; seccomp 317 277; landlock_create_ruleset 444 444; landlock_add_rule 445 445;
landlock_restrict_self 446 446

socket 41 198; connect 42 203; bind 49 200; listen 50 201; accept 43 202; accept4 288 242

ptrace 101 117; process_vm_readv 310 270; process_vm_writev 311 271; process_madvise 440 440;
kcmp 312 272; pidfd_open 434 434; pidfd_getfd 438 438; pidfd_send_signal 424 424; tkill 200 130;
rt_sigqueueinfo 129 138; rt_tgsigqueueinfo 297 240; fork 57 -; vfork 58 -; execve 59 221;
execveat 322 281

memfd_create 319 279; memfd_secret 447 447; shmget 29 194; msgget 68 186; semget 64 190;
mq_open 240 180; userfaultfd 323 282; io_setup 206 0; io_uring_setup 425 425;
io_uring_enter 426 426; io_uring_register 427 427; splice 275 76; tee 276 77; vmsplice 278 75;
migrate_pages 256 238; move_pages 279 239

init_module 175 105; finit_module 313 273; kexec_load 246 104; bpf 321 280;
perf_event_open 298 241; fanotify_init 300 262; inotify_init 253 -; inotify_init1 294 26;
syslog 103 116; settimeofday 164 170; clock_settime 227 112; adjtimex 159 171;
clock_adjtime 305 266; reboot 169 142; swapon 167 224; swapoff 168 225; sync 162 81; acct 163 89;
iopl 172 -; ioperm 173 -; quotactl 179 60; quotactl_fd 443 443; add_key 248 217;
request_key 249 218; keyctl 250 219; name_to_handle_at 303 264; open_by_handle_at 304 265

setuid 105 146; setgid 106 144; setreuid 113 145; setregid 114 143; setresuid 117 147;
setresgid 119 149; setfsuid 122 151; setfsgid 123 152; capset 126 91; personality 135 92;
modify_ldt 154 -; sched_setaffinity 203 122; sched_setscheduler 144 119; sched_setattr 314 274;
ioprio_set 251 30; setpriority 141 140
"""


@cache
def table(machine: str) -> dict[str, int]:
    """Return every call of the table, by name."""
    refused = syscalls._numbers(REFUSED, machine)
    return {**syscalls.always(machine, metadata=True), **syscalls.guarded(machine), **refused}

"""Runs Python as another user: root, root without capabilities, an ordinary user.

Needs root, and util-linux (``unshare``, ``setpriv``). The interpreter may lie where only root can
read it, so it is shown in a place of its own, in a mount namespace of its own.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What a container gives its root by default: no CAP_SYS_ADMIN, no CAP_SYS_PTRACE, no CAP_SYS_RAWIO.
_CONTAINER = "-all,+chown,+dac_override,+fowner,+kill,+setgid,+setuid,+setpcap,+sys_chroot,+mknod"
MODES: dict[str, list[str]] = {
    "root": [],
    "root of a container": ["setpriv", "--bounding-set", _CONTAINER, "--inh-caps", "-all"],
    "root without capabilities": ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"],
    "ordinary user": ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"],
}


def can_switch_user() -> bool:
    """Return whether this process can become another user."""
    tools = all(map(shutil.which, ("unshare", "setpriv", "mount")))
    return bool(tools) and os.geteuid() == 0


def run_as(
    mode: str, arguments: Sequence[str], timeout: float = 600.0, limits: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run Python with ``arguments`` as ``mode`` says; ``limits`` is shell, such as ``ulimit``."""
    packages = {sysconfig.get_path("purelib"), *(p for p in sys.path if "site-packages" in p)}
    with tempfile.TemporaryDirectory(prefix="as-whom-") as place:
        os.chmod(place, 0o755)
        home = Path(place, "home")
        home.mkdir()
        home.chmod(0o777)
        python = Path(place, "python")
        python.mkdir()
        script = f'mount --bind "$1" "$2" && {limits or ":"} && shift 2 && exec "$@"'
        binary = python / Path(os.path.realpath(sys.executable)).relative_to(sys.base_prefix)
        command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.base_prefix, str(python)]
        command += [*MODES[mode], str(binary), "-s", *arguments]
        paths = [str(ROOT), str(ROOT / "agents"), *sorted(packages)]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "HOME": str(home),
            "TMPDIR": str(home),
        }
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

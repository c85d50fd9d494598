"""Shows a training run while it runs: a viewer in a process of its own, which ends with the run.

A thread would take turns with the training. The process lives as long as its standard input is
open, so it ends with its parent however that ends.
"""

import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llm_gym.core.errors import ConfigError


def open_browser(url: str) -> bool:
    """Open ``url``; return whether a browser was asked to.

    Without a display Python would take one that runs in the terminal, and wait for it.
    """
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    return webbrowser.open(url)


@contextmanager
def serve_live(folder: Path, *, browser: bool = True) -> Iterator[str]:
    """Serve ``folder`` until the block ends; gives the address.

    Args:
        folder: Of a run that may not have begun; it is made.
        browser: Whether to open one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "llm_gym.view.live_server", str(folder)]
    pipe = subprocess.PIPE
    # A session of its own: Ctrl-C is for the training, which then closes our input.
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        url = child.stdout.readline().strip()
        if not url:
            raise ConfigError(f"the viewer of {folder} did not start")
        if browser:
            open_browser(url)
        yield url
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()


def main(folder: str) -> None:
    """Serve ``folder`` until the standard input ends."""
    from llm_gym.view.server import ViewServer
    from llm_gym.view.sources import open_sources

    with ViewServer(open_sources([Path(folder)])) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])

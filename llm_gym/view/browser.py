"""Opening the user's browser, where there is one to be seen."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_browser(url: str) -> bool:
    """Open ``url``; return whether a browser was asked to.

    Without a display Python would take one that runs in the terminal, and wait for it.
    """
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    return webbrowser.open(url)

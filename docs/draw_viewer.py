"""Takes the pictures of the viewer: two runs over each other, and one episode token by token.

    python docs/draw_viewer.py RUN [RUN ...]    # needs playwright and a chromium: make test-view

The first run must have recorded training episodes (``checkpoint.record_every``). Writes
``images/viewer_run.png`` and ``images/viewer_episode.png``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from llm_gym.view.server import ViewServer
from llm_gym.view.sources import open_sources

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1120, "height": 760}


def main() -> None:
    """Take both pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    server = ViewServer(open_sources(parser.parse_args().runs))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    chromium = os.environ.get("LLM_GYM_CHROMIUM") or shutil.which("chromium")
    args = ["--no-sandbox", "--disable-gpu"] if os.geteuid() == 0 else ["--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page(viewport=SIZE, color_scheme="dark")
        page.goto(server.url)
        page.wait_for_selector(".chart")
        page.screenshot(path=IMAGES / "viewer_run.png")
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        # The last training episodes of the first run; the longest wins most often tell a story.
        page.goto(server.url + "#/episodes?source=0&success=true&order=tokens")
        page.locator(".row").first.click()
        page.locator(".token").nth(1).focus()
        page.evaluate("document.querySelector('.episode .tools').scrollIntoView()")
        page.mouse.wheel(0, -60)  # from under the header
        page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / "viewer_episode.png")
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()

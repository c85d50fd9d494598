"""A real Chromium, and the page in it.

Playwright drives Debian's ``chromium`` (or the one that ``LLM_GYM_CHROMIUM`` names) through pipes:
no driver of a matching version is needed, and the network can be taken away. Every test fails on
anything that the page complains about.
"""

import os
import shutil
from contextlib import ExitStack

import pytest

from tests.view.records import serving

CHROMIUM = os.environ.get("LLM_GYM_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE_MS = 180_000  # a machine may be busy
QUIET = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-view")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium: apt install chromium, or set LLM_GYM_CHROMIUM")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        api.expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=QUIET + root, timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture
def serve():
    """Return a function that serves places and gives the address."""
    with ExitStack() as running:
        yield lambda *places: running.enter_context(serving(*places)).url


@pytest.fixture
def visit(chromium):
    """Return a function that opens an address and gives the page when it is ready."""
    contexts, complaints = [], []

    def start(url, offline=False, **how):
        context = chromium.new_context(**how)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        context.set_offline(offline)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: _stays(request.url, url, complaints))
        page.goto(url)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield start
    for context in contexts:
        context.close()
    assert complaints == []


def _stays(requested, url, complaints):
    """Nothing is fetched but from where the page itself came."""
    if not requested.startswith((url.split("#")[0], "data:")):
        complaints.append(f"the page requested {requested}")

"""Opening a browser: only where it can be seen."""

import sys
import webbrowser

import pytest

from llm_gym.view.browser import open_browser


@pytest.mark.parametrize(
    ("display", "platform", "opened"),
    [("", "linux", False), (":0", "linux", True), ("", "darwin", True)],
)
def test_a_browser_is_opened_where_there_is_a_display(monkeypatch, display, platform, opened):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or True)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert open_browser("http://127.0.0.1/") is opened
    assert len(asked) == opened

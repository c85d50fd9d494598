"""Opening a browser: only where it can be seen."""

import sys
import webbrowser

import pytest

from llm_gym.view.live_server import open_browser


@pytest.mark.parametrize(
    ("displays", "platform", "opened"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_where_there_is_a_display(monkeypatch, displays, platform, opened):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or True)
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, displays.get(name, ""))
    assert open_browser("http://127.0.0.1/") is opened
    assert len(asked) == opened

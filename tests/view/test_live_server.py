"""The page beside a run: there while the block runs, gone after it, whoever ends it."""

import http.client
import json
import re
import subprocess
import sys
import webbrowser
from urllib.parse import urlsplit

import pytest

from llm_gym import cli
from llm_gym.view import live_server
from llm_gym.view.live_server import open_browser, serve_live
from tests.view.records import METRICS


def sources(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    try:
        connection.request("GET", f"{parts.path}api/metrics?source=0&from=0")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_a_run_that_has_not_begun_is_followed_and_the_page_ends_with_it(tmp_path):
    folder = tmp_path / "runs/new"
    with serve_live(folder, browser=False) as url:
        assert sources(url)["rows"] == []
        (folder / "metrics.jsonl").write_text(json.dumps(METRICS[0]) + "\n")
        assert sources(url)["rows"] == METRICS[:1]
    with pytest.raises(OSError, match="refused"):
        sources(url)


@pytest.mark.slow
def test_a_parent_that_is_killed_leaves_no_page_behind(tmp_path):
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from llm_gym.view.live_server import serve_live\n"
        f"with serve_live(Path({str(tmp_path)!r}), browser=False) as url:\n"
        "    sys.stdout.write(url); sys.stdout.flush(); os._exit(9)\n"
    )
    # The page inherits the pipe for errors: run() returns when it is gone as well.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 9
    child = [sys.executable, "-m", "llm_gym.view.live_server", str(tmp_path)]
    ended = subprocess.run(child, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0
    for url in (done.stdout, ended.stdout.strip()):
        with pytest.raises(OSError, match="refused"):
            sources(url)


@pytest.mark.slow
def test_a_training_run_tells_the_address_of_its_page(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="needs the trainer")
    opened = []
    monkeypatch.setattr(live_server, "open_browser", lambda url: opened.append(sources(url)))
    run = ["text-game-easy", "--smoke", "--view", "--checkpoint.output-dir", str(tmp_path / "run")]
    assert cli.main(["train", *run]) == 0
    printed = re.search(r"live: +(http://127\.0\.0\.1:\S+)", capsys.readouterr().out)
    assert opened == [{"generation": 0, "from": 0, "rows": []}]
    with pytest.raises(OSError, match="refused"):
        sources(printed[1])


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

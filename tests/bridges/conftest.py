"""What bridges play on: a scripted model server, games, and an OpenEnv server."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.evaluate.endpoint.fake_server import FakeServer

# Packages, which the suites import.
collect_ignore_glob = ["openenv_game.py"]


@pytest.fixture
def chat_server():
    with FakeServer(lambda messages: messages[-1]["content"], keeps_alive=False) as server:
        yield server


@pytest.fixture(scope="session")
def tw_game(tmp_path_factory):
    """A game that TextWorld makes and Inform compiles, which takes a while."""
    pytest.importorskip("textworld")
    tool = Path(sys.executable).parent / "tw-make"
    if not tool.exists():
        pytest.skip("tw-make is not installed")
    path = tmp_path_factory.mktemp("textworld") / "game.z8"
    made = ["custom", "--world-size", "2", "--nb-objects", "3", "--quest-length", "2"]
    line = [sys.executable, str(tool), *made, "--seed", "7", "--output", str(path)]
    subprocess.run(line, check=True, capture_output=True)
    return str(path)


@pytest.fixture(scope="session")
def openenv_server():
    """OpenEnv's own server, with a game that draws from a generator of its own."""
    pytest.importorskip("openenv.core.env_server")
    uvicorn = pytest.importorskip("uvicorn")
    from tests.bridges.openenv_game import app

    served = uvicorn.Server(uvicorn.Config(app(), port=0, log_level="critical"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    port = served.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    served.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def java():
    """ScienceWorld runs in Java."""
    pytest.importorskip("scienceworld")
    if shutil.which("java") is None:
        pytest.skip("ScienceWorld needs a Java runtime")

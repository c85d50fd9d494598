"""A server that is started for the engine and ended with all it started; many calls at once."""

import contextlib
import json
import os
import signal
import sys
import textwrap
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.endpoint.http import HTTPError, JsonHTTP
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.engines.sglang import server as sglang_server
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from tests.agents.engines.scripts import run_python
from tests.agents.engines.sglang import stand_in as sglang_stand_in
from tests.agents.engines.truth import request
from tests.processes import is_running, still_running


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that puts a package ``sglang`` where Python looks, with this launcher."""
    folder = tmp_path / "site"
    (folder / "sglang").mkdir(parents=True)
    (folder / "sglang" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[4]}")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sglang_server, "_PAUSE_S", 0.05)

    def write(launcher):
        (folder / "sglang" / "launch_server.py").write_text(textwrap.dedent(launcher))
        return folder

    yield write
    sys.modules.pop("sglang", None)


SERVES = f"""
    import json, os, runpy, subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.environ["NOTES"], "w") as notes:
        json.dump({{"argv": sys.argv[1:], "pids": [os.getpid(), child.pid]}}, notes)
    open(os.path.join(os.path.dirname(os.environ["NOTES"]), "done"), "w").close()
    print("ready to serve", flush=True)
    runpy.run_path({sglang_stand_in.__file__!r}, run_name="__main__")
"""
"""A launcher that starts a process, as SGLang starts its scheduler, and then serves."""


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.json"))
    return lambda: json.loads((tmp_path / "notes.json").read_text())


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        ("import sys; print('no GPU was found', file=sys.stderr); sys.exit(3)", "3: no GPU"),
        ("import os; os._exit(9)", "ended with 9"),
    ],
)
def test_a_server_that_dies_at_once_is_quoted(tiny_folder, package, launcher, why):
    package(launcher)
    with pytest.raises(EngineError, match=why):
        SGLangEngine(tiny_folder)


def test_a_server_that_never_gets_ready_is_killed(
    tiny_folder, package, notes, tmp_path, monkeypatch
):
    package(SERVES)

    def not_yet(server):
        while not (tmp_path / "done").exists():
            time.sleep(0.02)
        return HTTPError("still loading")

    monkeypatch.setattr(sglang_server.SGLangServer, "_silence", not_yet)
    with pytest.raises(EngineError, match="still loading"):
        sglang_server.SGLangServer(None, tiny_folder, start_s=0.0)
    assert not still_running(notes()["pids"])


def test_a_started_server_gets_its_arguments_and_ends_with_its_children(
    tiny_folder, package, notes
):
    package(SERVES)
    engine = SGLangEngine(
        tiny_folder,
        dtype="float32",
        max_model_len=33,
        tensor_parallel_size=2,
        max_rows=7,
        trust_remote_code=True,
        arguments=["--attention-backend", "triton"],
    )
    arguments, pids = " ".join(notes()["argv"]), notes()["pids"]
    for option in (
        f"--model-path {tiny_folder}", "--dtype float32", "--context-length 33", "--tp-size 2",
        "--max-running-requests 7", "--attention-backend triton", "--trust-remote-code",
        "--skip-tokenizer-init",
    ):  # fmt: skip
        assert option in arguments
    assert len(engine.generate([request(9, max_tokens=3)])[0].ids) == 3
    assert all(is_running(pid) for pid in pids)
    engine.close()
    assert not still_running(pids)
    engine.close()


@pytest.mark.parametrize("patterns", [True, False])
def test_a_server_is_started_with_a_tokenizer_if_patterns_need_it(
    tiny_folder, package, notes, patterns
):
    package(SERVES)
    refused = contextlib.nullcontext() if patterns else pytest.raises(ConfigError, match="patterns")
    with contextlib.closing(SGLangEngine(tiny_folder, patterns=patterns)) as engine:
        assert ("--skip-tokenizer-init" in notes()["argv"]) != patterns
        with refused:
            assert len(engine.generate([request(9, max_tokens=3, pattern="(yes|no)")])) == 1


def test_a_started_server_that_is_killed_is_an_error(tiny_folder, package, notes):
    package(SERVES)
    engine = SGLangEngine(tiny_folder)
    pids = notes()["pids"]
    os.kill(pids[0], signal.SIGKILL)
    engine.submit([request(9)])
    with pytest.raises(EngineError, match="-9: ready to serve"):
        engine.poll()
    assert not still_running(pids), "its children, too"


@pytest.mark.slow
def test_a_started_server_ends_when_python_ends(tiny_folder, package, notes):
    folder = package(SERVES)
    script = f"""
        from llm_gym_agents.engines.sglang.engine import SGLangEngine
        engine = SGLangEngine({tiny_folder!r})
        raise SystemExit("somebody else's mistake")
    """
    assert "somebody else's mistake" in run_python(script, str(folder))
    assert not still_running(notes()["pids"])


def test_an_interrupted_request_does_not_spoil_the_next(fixed, monkeypatch):
    with contextlib.closing(JsonHTTP(fixed.url)) as http:
        http.get("/server_info")
        with monkeypatch.context() as patch:
            interrupt = Mock(side_effect=KeyboardInterrupt)
            patch.setattr("httpcore.HTTP11Connection._receive_response_headers", interrupt)
            with pytest.raises(KeyboardInterrupt):
                http.get("/server_info")
        assert http.get("/server_info")["version"] == "0.5"

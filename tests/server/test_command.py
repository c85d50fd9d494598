"""``llm-gym serve`` as a process."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import gymnasium as gym
import pytest

from llm_gym.cli import main
from llm_gym.core.errors import ConfigError
from tests.server.servers import serving

COMMAND = [sys.executable, "-c", "import sys; from llm_gym.cli import main; sys.exit(main())"]


@contextmanager
def command(*arguments, **variables):
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    try:
        yield process, re.search(r"http\S+", process.stdout.readline())[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_it_serves_until_it_is_told_to_stop_and_then_ends_cleanly(sign):
    token = "a-token-of-sixteen-signs"
    env = "llm_gym/GuessTheNumber-v0"
    with command(env, "--port", "0", "--set", "high=5", LLM_GYM_SERVE_TOKEN=token) as started:
        process, url = started
        os.environ["THE_TOKEN"] = token
        try:
            remote = gym.make("llm_gym/Remote-v0", url=url, token_env="THE_TOKEN")
            assert "from 1 to 5" in remote.reset(seed=0)[0]
        finally:
            del os.environ["THE_TOKEN"]
        process.send_signal(sign)  # in the middle of an episode
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert said == ""
        remote.unwrapped._connection.close()


def test_what_cannot_be_served_is_one_sentence(capsys):
    refused = {
        ("llm_gym/Nothing-v0",): "there is no environment",
        ("llm_gym/Echo-v0", "--host", "0.0.0.0"): "needs a token",
        ("llm_gym/Echo-v0", "--port", "99999"): "65535",
        ("llm_gym/Echo-v0", "--limit", "sessions=0"): "sessions",
        ("llm_gym/Echo-v0", "--threads", "-1"): "--threads",
        ("llm_gym/Echo-v0", "--tls-cert", "x.pem"): "belong together",
        ("llm_gym/Echo-v0", "--port", "0", "--tls-cert", "x", "--tls-key", "y"): "certificate",
    }
    for arguments, why in refused.items():
        assert main(["serve", *arguments]) == 2, arguments
        said = capsys.readouterr().err
        assert why in said, said
        assert said.count("\n") == 1, said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_that_dies_at_once_is_not_entered(monkeypatch):
    server = serving()
    monkeypatch.setattr(server._server, "run", lambda sockets: 1 / 0)
    with pytest.raises(ConfigError, match="ended"), server:
        pytest.fail("nothing listens")

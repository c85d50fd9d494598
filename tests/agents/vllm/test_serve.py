"""``llm-gym eval --endpoint`` against a real vLLM server, on the CPU."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from llm_gym import read_episodes
from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.endpoint import EndpointError, play
from tests.agents.vllm.conftest import save_llama

GUESS = "llm_gym/GuessTheNumber-v0"
CONTEXT = 1024
KEY = "sk-vllm-0123456789abcdef"
LOOKS = 1200
"""So often it is looked, twice a second, whether the server answers."""
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("chatty"), TEMPLATE, CONTEXT)


@pytest.fixture(scope="module")
def url(chatty, tmp_path_factory):
    """What ``vllm serve`` runs, until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("log") / "vllm.txt"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", chatty]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--enforce-eager", "--dtype", "float32", "--max-model-len", str(CONTEXT)]
    # A seeded request whose prompt is read in pieces fails on a CPU.
    command += ["--no-enable-chunked-prefill"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_API_KEY": KEY}
    environment |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        )
    try:
        for _ in range(LOOKS):
            if process.poll() is not None or answers(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.5)
        else:
            pytest.fail(f"vLLM never answered: {log.read_text()[-3000:]}")
        assert process.poll() is None, log.read_text()[-3000:]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its engine has a process of its own
        process.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("LLM_GYM_API_KEY", KEY)


def written(tokenizer, episode, turn):
    """Return the conversation before the reply of ``turn``, in the words of the template."""
    so_far = episode.messages[: 2 + 2 * turn]
    return tokenizer.apply_chat_template(so_far, tokenize=False, add_generation_prompt=True)


def test_four_episodes_are_played_and_every_token_is_accounted_for(url, chatty, tmp_path):
    from transformers import AutoTokenizer

    records = tmp_path / "played.jsonl"
    result = play(GUESS, url, "tiny", 4, max_tokens=8, temperature=1.0, records=records)
    tokenizer = AutoTokenizer.from_pretrained(chatty)
    assert [episode.seed for episode in result.episodes] == [0, 1, 2, 3]
    for episode in result.episodes:
        assert episode.stop_reason in (StopReason.WON, StopReason.LOST)
        # A byte is a token: the record counts what the server read, to the last one.
        read = [written(tokenizer, episode, turn) for turn in range(episode.num_turns)]
        assert episode.extra["tokens_in"] == [len(text.encode()) for text in read]
        assert all(1 <= count <= 8 for count in episode.extra["tokens_out"])
    turns = sum(episode.num_turns for episode in result.episodes)
    assert result.usage.requests == turns
    assert result.usage.tokens_out == sum(sum(e.extra["tokens_out"]) for e in result.episodes)
    assert result.usage.uncounted == result.usage.retries == 0
    assert list(read_episodes(records)) == result.episodes


def test_actions_depend_on_the_seed(url):
    def actions(seed, num_envs):
        played = play(
            GUESS, url, "tiny", 2, seed=seed, num_envs=num_envs, max_tokens=6, temperature=1.0
        )
        return [episode.actions for episode in played.episodes]

    assert actions(3, 1) == actions(3, 2)
    assert actions(3, 1) != actions(4, 1)


def test_a_conversation_that_outgrows_the_context_is_cut(url):
    long = {"max_tokens": 350, "body": {"ignore_eos": True}}
    result = play(GUESS, url, "tiny", 2, **long)
    for episode in result.episodes:
        assert episode.stop_reason == StopReason.CONTEXT
        assert 1 <= episode.num_turns < 5
        assert episode.truncated[-1]
    [unplayed] = play(GUESS, url, "tiny", 1, system_prompt="x" * 2000).episodes
    assert (unplayed.stop_reason, unplayed.num_turns) == (StopReason.CONTEXT, 0)


def test_requests_that_the_server_refuses_are_errors(url, monkeypatch):
    with pytest.raises(EndpointError, match=r"404: .*'huge'"):
        play(GUESS, url, "huge", 1)
    with pytest.raises(EndpointError, match=r"400: .*max_tokens"):
        play(GUESS, url, "tiny", 1, max_tokens=9000)
    monkeypatch.setenv("LLM_GYM_API_KEY", "sk-wrong-0123456789")
    with pytest.raises(EndpointError, match=r"401: .*LLM_GYM_API_KEY"):
        play(GUESS, url, "tiny", 1)
    monkeypatch.delenv("LLM_GYM_API_KEY")
    with pytest.raises(EndpointError, match="401"):
        play(GUESS, url, "tiny", 1)

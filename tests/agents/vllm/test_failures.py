"""vLLM in a process of its own: it works, and when it dies or hangs nobody else does."""

import os
import signal
import threading

import pytest

from llm_gym.core.errors import LLMGymError
from llm_gym_agents.engines.base import EngineError, StaleWeightsError
from llm_gym_agents.engines.publish import Publisher
from llm_gym_agents.engines.vllm.engine import VLLMEngine
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.model.weights import served_weights
from llm_gym_agents.text.tokenizers import byte_tokenizer
from tests.agents.checks import is_one_line
from tests.agents.engines.truth import drain, worst_error
from tests.agents.vllm.test_sampling import make_requests
from tests.agents.vllm.test_weights import learned
from tests.processes import descendants, is_running, still_running


def children():
    """Return the processes that this one started and that are alive, with theirs."""
    return set(filter(is_running, descendants(os.getpid())))


@pytest.fixture
def separate(folder):
    before = children()
    made = VLLMEngine(folder, dtype="float32", eager=True, separate=True, stall_s=180)
    made.processes = children() - before
    assert made.processes
    yield made
    made.close()
    assert not still_running(made.processes), "every process that vLLM started has ended"
    waiting = [thread.name for thread in threading.enumerate() if not thread.daemon]
    assert waiting == ["MainThread"], "nothing that Python would wait for at its end"


def send(engine, what):
    for process in engine.processes & children():
        os.kill(process, what)


def test_a_separate_process_samples_takes_weights_and_survives_an_interrupt(separate, lm):
    requests = make_requests()
    assert worst_error(lm, requests, separate.generate(requests)) <= 1e-4
    for weight in lm.parameters():
        weight.data.mul_(1.1)
    separate.update_weights(served_weights(lm), 1)
    replies = separate.generate(requests)
    assert worst_error(lm, requests, replies) <= 1e-4

    separate.submit(make_requests(max_tokens=400))
    separate.poll(0.0)
    send(separate, signal.SIGSTOP)  # so that it is waited for, and answers later
    send(separate, signal.SIGINT)  # a terminal interrupts every process
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        drain(separate)
    send(separate, signal.SIGCONT)
    assert separate.cancel()
    assert [again.ids for again in separate.generate(requests)] == [reply.ids for reply in replies]

    separate.submit(make_requests(max_tokens=400))
    separate.poll(0.0)
    send(separate, signal.SIGKILL)
    with pytest.raises(EngineError, match="lost its process", check=is_one_line):
        drain(separate)
    assert separate.running == 0
    with pytest.raises(EngineError, match="closed"):
        separate.submit(requests)


def test_a_process_that_hangs_is_given_up(separate, lm, monkeypatch):
    separate.generate(make_requests(1))
    separate._vllm.stall_s = 2.0
    try:
        with monkeypatch.context() as patched:
            patched.setattr(separate._vllm, "close", lambda: None)
            separate.submit(make_requests(max_tokens=400))
            send(separate, signal.SIGSTOP)
            with pytest.raises(EngineError, match="for 2 s"):
                drain(separate)
        send(separate, signal.SIGCONT)
        separate.cancel()
        send(separate, signal.SIGSTOP)
        with pytest.raises(EngineError, match="0 replies"):
            separate.update_weights(served_weights(lm), 1)
    finally:
        send(separate, signal.SIGCONT)


def test_a_cache_that_holds_no_reply_is_a_one_line_error_at_the_start(tmp_path):
    tokenizer = byte_tokenizer()
    shape = {"hidden_size": 64, "heads": 2, "layers": 16, "context_length": 200_000}
    tiny_llama(tokenizer, **shape).save_pretrained(tmp_path)
    with pytest.raises(
        EngineError, match=r"could not start with .* (KV|GiB|memory)", check=is_one_line
    ):
        VLLMEngine(str(tmp_path), dtype="float32", eager=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_model_len", 100_000), ("max_model_len", 0), ("dtype", "float7"), ("max_rows", 0),
        ("cache_gb", 0.5), ("tensor_parallel_size", 0), ("gpu_memory_utilization", 2),
        ("stall_s", 0),
    ],
)  # fmt: skip
def test_a_wrong_setting_of_vllm_is_a_one_line_error(folder, name, value):
    with pytest.raises(LLMGymError, match=name, check=is_one_line):
        VLLMEngine(folder, eager=True, **{name: value})


def test_one_missed_push_to_a_separate_process_is_caught(separate, lm, monkeypatch):
    publisher = Publisher(separate, lm)
    assert publisher.publish(0)["engine/weights_checked"] == len(list(served_weights(lm)))
    monkeypatch.setattr(separate, "_load", lambda bucket: list(separate._dtypes))
    learned(lm)
    with pytest.raises(StaleWeightsError, match="version 1"):
        publisher.publish(1)

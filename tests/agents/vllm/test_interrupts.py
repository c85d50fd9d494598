"""What is broken off, refused or dropped leaves nothing behind in vLLM."""

import contextlib
import os
import signal
import time

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import FinishReason, Request, Sampling
from llm_gym_agents.engines.vllm import runtime as vllm_runtime
from llm_gym_agents.model.load import load_model
from llm_gym_agents.model.weights import served_weights
from tests.agents.checks import is_one_line
from tests.agents.engines.truth import drain, worst_error
from tests.agents.vllm.conftest import prompts
from tests.agents.vllm.test_sampling import make_requests
from tests.agents.vllm.test_weights import shaken
from tests.processes import is_running, still_running


def core(engine):
    """Return the part of vLLM that plans and computes."""
    return engine._vllm.llm_engine.engine_core.engine_core


def interrupt_once(monkeypatch, owner, name):
    usual, left = getattr(owner, name), [True]

    def interrupted(*args, **kwargs):
        if left:
            left.pop()
            raise KeyboardInterrupt
        return usual(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)


def test_an_interrupt_between_planning_and_computing_does_not_spoil_the_cache(
    engine, lm, monkeypatch
):
    long = [Request(prompt, Sampling(max_tokens=8)) for prompt in prompts(2, 200)]
    interrupt_once(monkeypatch, core(engine).model_executor, "execute_model")
    with pytest.raises(KeyboardInterrupt):
        engine.generate(long)
    assert engine.running == 0
    assert worst_error(lm, long, engine.generate(long)) <= 1e-4


@pytest.mark.parametrize("name", ["add_request", "step"])
def test_an_interrupt_leaves_nothing_running(engine, monkeypatch, name):
    with monkeypatch.context() as patched:
        interrupt_once(patched, engine._vllm.llm_engine, name)
        with pytest.raises(KeyboardInterrupt):
            engine.generate(make_requests(max_tokens=100))
        assert engine.running == engine._vllm.llm_engine.get_num_unfinished_requests() == 0
        interrupt_once(patched, engine._vllm.llm_engine, name)
        with pytest.raises(KeyboardInterrupt):
            engine.score(prompts(3, 20))
        assert engine._vllm.llm_engine.get_num_unfinished_requests() == 0
    assert not core(engine).scheduler.has_unfinished_requests()


def test_dropped_replies_are_not_taken_for_later_ones(engine):
    clean = [reply.ids for reply in engine.generate(make_requests())]
    engine.submit([Request(r.prompt, Sampling(max_tokens=200), 99, "old") for r in make_requests()])
    engine.poll(0.0)
    engine.cancel()
    engine.submit(make_requests())  # under other names, whatever was still on its way
    found = {reply.key: reply.ids for reply in drain(engine)}
    assert [found[f"row {seed}"] for seed in range(8)] == clean
    assert len(found) == 8


@pytest.mark.parametrize("pattern", ["(open", "a{2,1}", "[z-a]", "(?P<name>", "\0"])
def test_a_bad_pattern_costs_no_other_reply(engine, pattern):
    engine.submit(make_requests(2, max_tokens=30))
    good, bad = make_requests(2)
    bad = Request(bad.prompt, Sampling(max_tokens=8, pattern=pattern), key="bad")
    with pytest.raises(ConfigError, match="refuses a request", check=is_one_line):
        engine.submit([good, bad])
    assert engine.running == 2
    done = drain(engine)
    assert {reply.finish for reply in done} <= {FinishReason.STOP, FinishReason.LENGTH}
    assert len(done) == 2


def test_a_prefix_that_vllm_still_holds_is_not_found_after_a_push(engine, lm):
    """vLLM does not empty its cache while any request runs."""
    prompt = [1] * 50
    known = {"prompt_token_ids": prompt, "cache_salt": str(engine._vllm.salt)}
    held = engine._vllm.llm_engine.add_request("held", known, vllm_sampling())
    engine._vllm.llm_engine.step()
    try:
        requests = [Request(prompt, Sampling(max_tokens=4))]
        engine.update_weights(served_weights(shaken(lm)), 5)
        assert worst_error(lm, requests, engine.generate(requests)) <= 1e-4
    finally:
        engine._vllm.llm_engine.abort_request([held], internal=True)
        engine.update_weights(served_weights(load_model(engine.path)), 0)


def vllm_sampling():
    from vllm import SamplingParams

    return SamplingParams(max_tokens=100, detokenize=False, ignore_eos=True)


def test_an_interrupt_ends_a_start_whatever_vllm_does_about_it(folder, monkeypatch):
    import vllm

    def swallows(*args, **settings):  # as vLLM does while it waits for its process
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return "started nonetheless"

    monkeypatch.setattr(vllm, "LLM", swallows)
    with pytest.raises(KeyboardInterrupt):
        vllm_runtime.start(folder, separate=True, cache_gb=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_vllm_process_ends_when_its_owner_is_killed():
    from llm_gym_agents.engines.vllm.worker import WorkerSide

    read, write = os.pipe()
    owner = os.fork()
    if owner == 0:
        worker = os.fork()
        if worker == 0:
            WorkerSide().llm_gym_follow(os.getppid())
            os.write(write, b"%d" % os.getpid())
        time.sleep(60)
        os._exit(0)
    worker = int(os.read(read, 20))
    time.sleep(0.2)
    assert is_running(worker)
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    assert not still_running([worker])

"""Tests against a real vLLM on the CPU: `make test-vllm`. Without vLLM nothing is collected.

Run with `-W ignore`: vLLM, and what it imports, warn of their own code.
"""

import importlib.util
import os

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("vllm") else ["test_*.py"]
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # a compiled sampler takes longer than a test


def save_llama(place, template=None, context_length=512):
    """Save a small Llama with random weights, and a tokenizer of bytes; return the folder."""
    from llm_gym_agents.model.load import tiny_llama
    from llm_gym_agents.text.tokenizers import byte_tokenizer

    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    # vLLM's attention on a CPU wants heads of at least 32.
    lm = tiny_llama(tokenizer, hidden_size=64, heads=2, context_length=context_length)
    lm.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return str(place)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture
def lm(folder):
    """The model that a trainer would have: the same weights, its own copy."""
    from llm_gym_agents.model.load import load_model

    return load_model(folder).eval()


@pytest.fixture(scope="module")
def engine(folder):
    """One vLLM for the tests of a file, which leave it as they found it."""
    from llm_gym_agents.engines.vllm.engine import VLLMEngine
    from llm_gym_agents.model.load import load_tokenizer

    made = VLLMEngine(
        folder, tokenizer=load_tokenizer(folder), dtype="float32", eager=True, patterns=True
    )
    yield made
    made.close()


def prompts(count, length=12):
    """Return ``count`` different prompts of bytes."""
    return [[(31 * row + 7 * at) % 200 + 1 for at in range(length)] for row in range(count)]

"""A small model runs in one thread, unless the user has set another number."""

import pytest
import torch

from llm_gym import cli
from llm_gym_agents.model.load import limit_threads, tiny_llama
from llm_gym_agents.text.tokenizers import byte_tokenizer
from tests.agents.tiny import save_tiny


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_small_model_gets_one_thread_and_a_larger_one_keeps_its_own():
    limit_threads(tiny_llama(byte_tokenizer()))
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
    limit_threads(torch.nn.Linear(1_000, 1_000))
    assert torch.get_num_threads() == 2


def test_omp_num_threads_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    limit_threads(tiny_llama(byte_tokenizer()))
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("command", [pytest.param("train", marks=pytest.mark.slow), "eval"])
def test_the_commands_limit_the_threads(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if command == "train":
        assert cli.main(["train", "llm_gym/Echo-v0", "--smoke"]) == 0
    else:
        save_tiny(tmp_path / "model")
        few = ["--episodes", "1"]
        assert cli.main([command, "llm_gym/Echo-v0", "--model", "model", *few]) == 0
    assert torch.get_num_threads() == 1

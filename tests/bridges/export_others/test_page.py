"""The blocks of docs/other_libraries.md that need packages of others."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = re.findall(r"^```py\n(.*?)^```", (DOCS / "other_libraries.md").read_text(), re.M | re.S)


def block(word):
    (found,) = [one for one in BLOCKS if word in one]
    return found


def run(text, names=None):
    """Run a block; return the names that it leaves."""
    left = dict(names or {})
    exec(compile(text, "other_libraries.md", "exec"), left)
    return left


def test_the_block_of_verifiers_makes_a_taskset():
    pytest.importorskip("verifiers.v1")
    assert run(block("verifiers.v1"))["GameTaskset"].INFINITE


def test_the_block_of_skyrl_plays_a_turn():
    pytest.importorskip("skyrl_gym")
    names = run(block("import skyrl_gym"))
    assert names["messages"][-1]["role"] == "user"
    assert names["step"]["observations"][0]["content"]
    assert names["env"].get_metrics()["turns"] == 1


def test_the_block_of_trl_trains(tmp_path):
    pytest.importorskip("trl")
    from tests.agents.tiny import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    names = {
        "model": tiny_model(vocab_size=len(tokenizer)),
        "tokenizer": tokenizer,
        "settings": {
            "output_dir": str(tmp_path), "max_steps": 1, "use_cpu": True, "bf16": False,
            "per_device_train_batch_size": 2, "num_generations": 2, "report_to": [],
            "max_completion_length": 24, "save_strategy": "no",
        },
    }  # fmt: skip
    assert run(block("GRPOTrainer"), names)["trainer"].state.global_step == 1


def test_the_block_of_openenv_runs_as_printed(capsys):
    pytest.importorskip("openenv")
    from tests.server.servers import serving

    with serving("llm_gym/TextGame-v0") as server:
        run(block("GenericEnvClient").replace("http://127.0.0.1:8765", server.url))
    assert capsys.readouterr().out

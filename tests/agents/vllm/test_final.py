"""``final/`` of a run in vLLM itself: it answers a conversation as transformers does."""

import json
import os
import subprocess
import sys

from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.agents.small_run import small, trained

TALK = [
    {"role": "user", "content": "Guess it!"},
    {"role": "assistant", "content": "12"},
    {"role": "user", "content": "Too low."},
]
TOKENS = 8
VLLM = f"""
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    engine = LLM(sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=256)
    sampling = SamplingParams(temperature=0.0, max_tokens={TOKENS})
    (answer,) = engine.chat(json.loads(sys.argv[2]), sampling, use_tqdm=False)
    with open(sys.argv[3], "w") as file:  # vLLM prints as well
        json.dump([*answer.prompt_token_ids, *answer.outputs[0].token_ids], file)
"""


def test_vllm_answers_a_conversation_as_transformers_does(folder, tmp_path):
    config = small(tmp_path / "run", model={"model_name": folder})
    config.environment.env_id = "llm_gym/GuessTheNumber-v0"
    trained(config)
    final = tmp_path / "run" / "final"

    tokenizer = AutoTokenizer.from_pretrained(final)
    prompt = tokenizer.apply_chat_template(TALK, add_generation_prompt=True, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(final, dtype="float32")
    ids = model.generate(**prompt, max_new_tokens=TOKENS, do_sample=False)[0].tolist()

    # In a process of its own: what vLLM sets up there would stay for the tests after this one.
    answer_file = tmp_path / "answer.json"
    command = [sys.executable, "-c", VLLM, str(final), json.dumps(TALK), str(answer_file)]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(answer_file.read_text()) == ids

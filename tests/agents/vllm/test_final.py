"""``final/`` of a run in vLLM itself: it answers a conversation as transformers does."""

from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_gym_agents import PPOTrainer
from tests.agents.small_run import small

TALK = [
    {"role": "user", "content": "Guess it!"},
    {"role": "assistant", "content": "12"},
    {"role": "user", "content": "Too low."},
]
TOKENS = 8


def test_vllm_answers_a_conversation_as_transformers_does(folder, tmp_path, monkeypatch):
    from vllm import LLM, SamplingParams

    config = small(tmp_path / "run", model={"model_name": folder})
    config.environment.env_id = "llm_gym/GuessTheNumber-v0"
    trainer = PPOTrainer(config)
    trainer.fit()
    trainer.cleanup()
    final = tmp_path / "run" / "final"

    tokenizer = AutoTokenizer.from_pretrained(final)
    prompt = tokenizer.apply_chat_template(TALK, add_generation_prompt=True, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(final, dtype="float32")
    ids = model.generate(**prompt, max_new_tokens=TOKENS, do_sample=False)[0].tolist()

    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    engine = LLM(str(final), dtype="float32", enforce_eager=True, max_model_len=512)
    sampling = SamplingParams(temperature=0.0, max_tokens=TOKENS)
    (answer,) = engine.chat(TALK, sampling, use_tqdm=False)
    assert [*answer.prompt_token_ids, *answer.outputs[0].token_ids] == ids

"""Engines that are built in one line, by a trainer, or in a way that goes wrong."""

import json
import re
import weakref

import pytest
import torch

from llm_gym import cli
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.engines.publish import PROBE_GAP, PUBLISH_SECONDS
from llm_gym_agents.engines.vllm import runtime as vllm_runtime
from llm_gym_agents.engines.vllm.engine import VLLMEngine
from llm_gym_agents.model.load import load_tokenizer
from llm_gym_agents.rollouts.evaluation import rollout
from llm_gym_agents.rollouts.policy import LLMPolicy
from tests.agents.engines.truth import worst_error
from tests.agents.vllm.test_play import ENV
from tests.agents.vllm.test_sampling import make_requests
from tests.agents.vllm.test_weights import shaken


def test_the_one_liner_plays_64_environments(folder):
    policy = LLMPolicy.from_pretrained(
        folder,
        engine="vllm",
        config={"eager": True, "dtype": "float32"},
        sampling=Sampling(max_tokens=4),
    )
    try:
        assert not policy.sync_replies
        result = rollout(ENV, policy, 64, num_envs=64, env_kwargs={"rules": "system"})
        assert len(result.episodes) == 64
        assert result.tokens > 64
        with pytest.raises(EngineError, match="one vLLM engine"):
            VLLMEngine(folder)
        weight = weakref.ref(next(model_of(policy.engine).parameters()))
        assert weight() is not None
    finally:
        policy.engine.close()
    assert weight() is None, "the memory of the weights is free"


def model_of(engine):
    return engine._vllm.llm_engine.model_executor.driver_worker.model_runner.model


def test_the_command_plays_with_constrained_moves(folder, capfd):
    options = ["--model", folder, "--engine", "vllm", "--constrained", "--max-tokens", "32"]
    assert cli.main(["eval", ENV, *options, "--engine-set", "max_model_length=400"]) == 2
    assert "max_model_len?" in capfd.readouterr().err
    options += ["--engine-set", "eager=true", "--engine-set", "max_model_len=400"]
    assert cli.main(["eval", ENV, *options, "--episodes", "4", "--json"]) == 0
    out, err = capfd.readouterr()
    [result] = json.loads(out)
    assert (result["episodes"], result["invalid"]) == (4, 0.0)
    assert not re.search(r"INFO|safetensors|regex|Error", err), err


def test_two_ppo_iterations_train_through_vllm_until_it_dies(folder, lm, tmp_path, monkeypatch):
    config = ConfigStore()
    config.inference.backend, config.inference.engine = "vllm", {"eager": True}
    config.inference.max_tokens = 4
    config.environment.env_id, config.environment.eval_interval = "llm_gym/Count-v0", 0
    config.training.batch_size = config.training.mini_batch_size = 8
    config.training.learning_rate = 1e-2
    config.checkpoint.output_dir = str(tmp_path)
    before = {name: weight.clone() for name, weight in lm.named_parameters()}
    trainer = PPOTrainer(
        config,
        reward_fn=lambda trajectory: float(len(trajectory.actions[0])),
        model=lm,
        tokenizer=load_tokenizer(folder),
    )
    try:
        rows = trainer.fit(1, 2)
        assert len(rows) == 2
        moved = [n for n, weight in lm.named_parameters() if not torch.equal(weight, before[n])]
        assert len(moved) == len(before), "every weight was trained"
        assert all(row[PROBE_GAP] <= 1e-5 and row[PUBLISH_SECONDS] > 0 for row in rows)
        assert all(row["mismatch/kl"] <= 1e-8 for row in rows), "vLLM sampled what was trained"
        assert trainer.sampler.engine.version == 2
        requests = make_requests()
        assert worst_error(lm, requests, trainer.sampler.engine.generate(requests)) <= 1e-4

        shaken(lm)
        trainer.load_checkpoint(trainer.checkpoints.latest())
        assert worst_error(lm, requests, trainer.sampler.engine.generate(requests)) <= 1e-4, (
            "as resumed"
        )

        fail_after(trainer.sampler.engine, 3, monkeypatch)
        with pytest.raises(EngineError, match="the driver is gone"):
            trainer.fit(1, 3)
    finally:
        trainer.cleanup()
    trainer.cleanup()
    assert not vllm_runtime._inside, "another engine can be built"


def fail_after(engine, steps, monkeypatch):
    step, left = engine._vllm.llm_engine.step, iter(range(steps))

    def failing():
        if next(left, None) is None:
            raise RuntimeError("the driver is gone\nand so on")
        return step()

    monkeypatch.setattr(engine._vllm.llm_engine, "step", failing)

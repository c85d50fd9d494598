"""Who plays: an engine with the model in it, a policy around that, and the two with a pool."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build.envs import build_pool
from llm_gym_agents.checkpoint import save_lm
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Engine, Sampling
from llm_gym_agents.engines.load import check_settings, load_engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn.memory_plan import vllm_memory_settings
from llm_gym_agents.model.precision import compute_dtype
from llm_gym_agents.model.weights import is_sharded
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.text.chat import ChatFormat


def build_engine(
    config: ConfigStore, lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Engine:
    """Return the engine that samples with ``lm``, or with a copy that is kept like it."""
    backend, own = config.inference.backend, config.inference.engine
    apart = backend != "transformers" or is_sharded(lm)
    if not apart:
        # The rest is the model section's to say: this engine has the trainer's own model.
        check_settings(backend, own, known=("max_rows", "prefix_cache"))
        return TransformersEngine(lm, tokenizer=tokenizer, **own)
    computed = compute_dtype(config.model.dtype, lm.device)
    common = {
        "dtype": str(computed).removeprefix("torch."),
        "tensor_parallel_size": config.model.tensor_parallel_size,
        "trust_remote_code": config.model.trust_remote_code,
    }
    if backend == "transformers":
        common |= {"device": str(lm.device)}
    # What is served first does not matter, only its shape: the trainer's weights are pushed.
    with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
        save_lm(Path(folder), lm, tokenizer)
        return load_engine(folder, backend, common | vllm_memory_settings(config, lm) | own)[0]


def build_sampler(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> Sampler:
    """Return what plays ``env``, and ``held_out`` to be evaluated on, with ``lm``."""
    isolated_batch_size = config.inference.isolated_batch_size
    rows = min(
        config.inference.num_envs, config.training.batch_size, isolated_batch_size or sys.maxsize
    )
    with ExitStack() as undo:  # nobody else could end the engine's processes
        engine = build_engine(config, lm, tokenizer)
        undo.callback(engine.close)
        policy = build_policy(config, engine, tokenizer)
        pool = build_pool(config, env, rows)
        undo.callback(pool.close, raise_if_closed=False)
        other = None if held_out is None else build_pool(config, held_out, rows)
        sampler = Sampler(policy, pool, other, isolated_batch_size=isolated_batch_size)
        undo.pop_all()
    return sampler


def build_policy(
    config: ConfigStore, engine: Engine, tokenizer: PreTrainedTokenizerBase
) -> LLMPolicy:
    """Return the policy that plays with ``engine``."""
    settings = config.inference
    return LLMPolicy(
        engine,
        ChatFormat.from_tokenizer(tokenizer),
        sampling=Sampling(settings.max_tokens, settings.temperature),
        context=settings.context,
        system_prompt=settings.system_prompt,
        run_seed=config.training.seed,
        sync_replies=settings.backend == "transformers"
        if settings.sync_replies is None
        else settings.sync_replies,
    )

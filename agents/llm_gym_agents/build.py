"""From a config to the parts of a run: model, tokenizer, engine, policy, environments."""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from transformers import (
    AutoConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llm_gym.as_text import make_text
from llm_gym.core.text_env import TextEnv
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment, as_gym
from llm_gym.registry.plugins import find_spec
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.vector.local_rows import Elsewhere
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.checkpoint import save_lm
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Engine, MissingExtraError, Sampling
from llm_gym_agents.engines.load import check_settings, load_engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn.memory_plan import (
    Plan,
    Shape,
    engine_must_sleep,
    engine_share,
    plan,
)
from llm_gym_agents.learn.optimizer import bytes_of_state
from llm_gym_agents.lm.load import load_model, load_tokenizer
from llm_gym_agents.lm.precision import compute_dtype, keep_trained_in_float32, without_dropout
from llm_gym_agents.lm.read_again import read_again
from llm_gym_agents.lm.sharded import is_spread
from llm_gym_agents.lm.tiny import TINY_SPREAD, tiny_llama
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import (
    byte_tokenizer,
    collect_vocabulary,
    piece_tokenizer,
    texts_of,
    word_tokenizer,
)

TINY = "tiny"
MOST_CACHED = 1 << 19
"""Tokens whose keys and values an engine is given room for, if the model allows as many."""
MOST_TURNS = 1_000
"""Turns of an episode that is played to be imitated, where the environment knows no end."""


def build_lm(
    config: ConfigStore, env: EnvSource, tokenizer: PreTrainedTokenizerBase | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model that is trained, and its tokenizer."""
    settings = config.model
    path = settings.local_path or settings.model_name
    if path == TINY:
        tokenizer = tokenizer or tiny_tokenizer(env, config.environment.env_kwargs)
        seed = config.training.seed
        lm: PreTrainedModel = tiny_llama(tokenizer, spread=TINY_SPREAD, seed=seed)
        lm.to(device=device_of(settings.device), dtype=getattr(torch, settings.dtype))  # type: ignore[call-arg]
    else:
        lm, own = load_lm(config, path)
        tokenizer = tokenizer or own
    return prepare_lm(config, lm), tokenizer


def is_embedded(config: ConfigStore) -> bool:
    """Whether ``config`` names the model that is made on the spot."""
    return (config.model.local_path or config.model.model_name) == TINY


def language_model(
    config: ConfigStore,
    env: EnvSource,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model that is trained and its tokenizer, those passed in where there are any."""
    if model is None:
        lm, tokenizer = build_lm(config, env, tokenizer)
    elif tokenizer is None:
        raise ConfigError("a model that is passed in needs its tokenizer as well")
    else:
        lm = prepare_lm(config, _placed(config, model))
    check_tokenizer(lm, tokenizer)
    return lm, tokenizer


def _placed(config: ConfigStore, model: PreTrainedModel) -> PreTrainedModel:
    """Return a model that was passed in, where the config wants it and in its precision.

    ``auto`` and float32 are what nobody has to ask for: they move it to a GPU that is there, and
    leave its precision alone.
    """
    settings = config.model
    model.to(device=device_of(settings.device))  # type: ignore[call-arg]
    if settings.dtype != "float32":
        model.to(dtype=getattr(torch, settings.dtype))  # type: ignore[call-arg]
    return model


def load_lm(config: ConfigStore, path: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model at ``path`` and its tokenizer, where and as the config wants them."""
    settings = config.model
    trust = settings.trust_remote_code
    # Weights that will be spread over cards are planned with all of them (``distributed.plan``).
    alone = config.parallel.mode != "fsdp"
    if alone and torch.device(device_of(settings.device)).type == "cuda":
        own = AutoConfig.from_pretrained(path, trust_remote_code=trust)
        run_plan(config, own).check(_total_memory(settings.device))
    lm = load_model(
        path, dtype=settings.dtype, device=device_of(settings.device), trust_remote_code=trust
    )
    return lm, load_tokenizer(path, trust_remote_code=trust)


def run_plan(config: ConfigStore, own: Any) -> Plan:
    """Return what a run takes of a card; ``own`` is the config of its model."""
    settings, inference = config.model, config.inference
    served = inference.backend == "vllm"
    longest = inference.engine.get("max_model_len") or own.max_position_embeddings
    rows = min(inference.num_envs, config.training.batch_size)
    device = torch.device("cuda")
    narrow = compute_dtype(settings.compute_dtype, settings.dtype, device) != torch.float32
    return plan(
        Shape.of(own),
        micro_batch_tokens=config.training.micro_batch_tokens,
        lora_rank=settings.lora_rank,
        kept_bytes=4 if settings.dtype == "float32" else 2,
        optimizer_bytes=bytes_of_state(config.training.optimizer, lora_rank=settings.lora_rank),
        checkpointing=settings.gradient_checkpointing,
        narrow=narrow,
        has_reference=config.training.use_kl_in_reward or config.training.use_kl_in_loss,
        engine_tokens=max(longest, min(rows * longest, MOST_CACHED)) if served else 0,
        engine_bytes=2 if narrow else 4,
        engine_sleeps=bool(inference.engine.get("sleeps", True)),
    )


def _total_memory(device: str) -> int:
    where = torch.device(device_of(device))
    found: int = torch.cuda.get_device_properties(where).total_memory
    return found


def _shared_card(config: ConfigStore, lm: PreTrainedModel) -> dict[str, Any]:
    """Return how vLLM shares the trainer's card, unless the config says how."""
    if config.inference.backend != "vllm" or lm.device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(lm.device)
    made, used = run_plan(config, lm.config), total - free
    return {
        "gpu_memory_utilization": engine_share(made, used=used, total=total),
        "sleeps": engine_must_sleep(made, used=used, total=total),
    }


def device_of(wanted: str) -> str:
    """Return the device that ``wanted`` means on this machine."""
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def prepare_lm(config: ConfigStore, lm: PreTrainedModel) -> PreTrainedModel:
    """Return ``lm`` with the adapters and the memory savings that the config asks for."""
    if config.model.lora_rank:
        lm = _add_lora(lm, config.model.lora_rank, config.model.lora_alpha)
    if config.model.gradient_checkpointing:
        lm.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": read_again}
        )
        lm.enable_input_require_grads()
    without_dropout(lm)
    return lm


def check_tokenizer(lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with ids that the model has no embedding for."""
    rows = len(lm.get_input_embeddings().get_parameter("weight"))
    if len(tokenizer) > rows:
        raise ConfigError(
            f"the tokenizer must have at most the {rows} tokens of the model's embedding, got "
            f"{len(tokenizer)}; pass the tokenizer that the model was made with"
        )


def _add_lora(lm: PreTrainedModel, rank: int, alpha: float) -> PreTrainedModel:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtraError(
            'model.lora_rank needs peft. Install it with: pip install "llm-gym[lora]"'
        ) from error
    # To peft's types alpha is an int, and what comes back is any module; it is lm.
    settings = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")  # type: ignore[arg-type]
    adapted: PreTrainedModel = inject_adapter_in_model(settings, lm)  # type: ignore[assignment]
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    keep_trained_in_float32(adapted)
    return adapted


def tiny_tokenizer(env: EnvSource, env_kwargs: dict[str, Any]) -> PreTrainedTokenizerBase:
    """Return a tokenizer of the words that an environment uses, or of bytes where nobody plays."""
    if not isinstance(env, str):
        return byte_tokenizer()
    made = make_text(env, **env_kwargs)
    try:
        if isinstance(made.unwrapped, TextEnv):
            if made.spec is not None:
                return word_tokenizer(collect_vocabulary([made.spec], rules=True))
        elif made.has_wrapper_attr("random_action"):
            return piece_tokenizer(texts_of(made))
    finally:
        made.close()
    return byte_tokenizer()


def build_engine(
    config: ConfigStore, lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Engine:
    """Return the engine that samples with ``lm``, or with a copy that is kept like it."""
    backend, own = config.inference.backend, config.inference.engine
    apart = backend != "transformers" or is_spread(lm)
    if not apart:
        # The rest is the model section's to say: this engine has the trainer's own model.
        check_settings(backend, own, known=("max_rows", "prefix_cache"))
        return TransformersEngine(lm, tokenizer=tokenizer, **own)
    computed = compute_dtype(config.model.compute_dtype, config.model.dtype, lm.device)
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
        return load_engine(folder, backend, common | _shared_card(config, lm) | own)[0]


def build_sampler(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
    elsewhere: Elsewhere | None = None,
) -> Sampler:
    """Return what plays ``env``, and ``held_out`` to be evaluated on, with ``lm``.

    ``elsewhere`` starts the environments on other machines.
    """
    lot_size = config.inference.lot_size
    rows = min(config.inference.num_envs, config.training.batch_size, lot_size or sys.maxsize)
    with ExitStack() as undo:  # nobody else could end the engine's processes
        engine = build_engine(config, lm, tokenizer)
        undo.callback(engine.close)
        policy = build_policy(config, engine, tokenizer)
        pool = build_pool(config, env, rows, elsewhere)
        undo.callback(pool.close, raise_if_closed=False)
        other = None if held_out is None else build_pool(config, held_out, rows, elsewhere)
        sampler = Sampler(policy, pool, other, lot_size=lot_size)
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
        sampling=Sampling(
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            min_p=settings.min_p,
        ),
        context=settings.context,
        system_prompt=settings.system_prompt,
        run_seed=config.training.seed,
        barrier=settings.backend == "transformers"
        if settings.barrier is None
        else settings.barrier,
    )


def build_pool(
    config: ConfigStore, env: EnvSource, rows: int, elsewhere: Elsewhere | None = None
) -> TextEnvPool:
    """Return ``rows`` environments, cut after as many turns as the config says."""
    limit = config.inference.max_turns if config.inference.multi_turn else 1
    wrappers: list[Callable[[Any], Any]] = []
    if limit is not None:
        wrappers.append(lambda made: EpisodeLimits(made, max_turns=limit))
    source, settings = _source(config, env)
    return TextEnvPool(
        source,
        rows,
        workers=elsewhere or min(config.environment.workers, rows),
        timeout=config.environment.timeout,
        wrappers=wrappers,
        **settings,
    )


def build_one_env(config: ConfigStore, env: EnvSource) -> gym.Env[str, str]:
    """Return one environment as the pool plays it, cut after ``MOST_TURNS`` if nothing else is."""
    source, settings = _source(config, env)
    limit = config.inference.max_turns if config.inference.multi_turn else 1
    return EpisodeLimits(make_text(source, **settings), max_turns=limit or MOST_TURNS)


def _source(config: ConfigStore, env: EnvSource) -> tuple[EnvSource, dict[str, Any]]:
    """Return what environments are built from, and their settings."""
    source = env_source(env)
    if isinstance(env, type) and issubclass(env, BaseEnvironment):
        # Its config is the environment section, where it finds max_steps and its own settings.
        source = functools.partial(as_gym, env, config.environment)
    return source, config.environment.env_kwargs if isinstance(source, str) else {}


def training_env(
    config: ConfigStore,
    environment: EnvSource | None,
    dataset: Any,
    collate_fn: Callable[[Any], dict[str, Any]] | None,
) -> EnvSource:
    """Return what is played: the environment, the data set, or the id that the config names."""
    if environment is not None and dataset is not None:
        raise ConfigError("pass an environment or a dataset, got both")
    if dataset is not None:
        return dataset_env(config, dataset, collate_fn)
    found = environment if environment is not None else config.environment.env_id
    if found is None:
        raise ConfigError("pass an environment or set config.environment.env_id, got neither")
    if isinstance(found, str):
        find_spec(found)
    return found


def dataset_env(
    config: ConfigStore, dataset: Any, collate_fn: Callable[[Any], dict[str, Any]] | None
) -> EnvSource:
    """Return an environment that asks the questions of ``dataset``."""
    from llm_gym.envs.answers.dataset import as_dataset_env

    made: EnvSource = as_dataset_env(
        dataset, collate_fn=collate_fn, **config.environment.env_kwargs
    )
    return made


def handed_over(environment: EnvSource | None, **objects: Any) -> list[str]:
    """Return the names of what a program gave that no file can bring back."""
    named = environment is None or isinstance(environment, str)
    return [name for name, each in objects.items() if each is not None] + ["environment"] * (
        not named
    )

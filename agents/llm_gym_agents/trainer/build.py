"""Builds the parts of a run from its config: environments, model, engine, policy, sampler.

Only runs that use ``process_group`` or ``ray`` import them.
"""

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ConfigError, require_package
from llm_gym.core.legacy import BaseEnvironment, as_gym
from llm_gym.registry.lookup import find_spec
from llm_gym.registry.sources import EnvSource
from llm_gym.registry.user_code import close_user_env, explain_failures
from llm_gym.wrappers import EpisodeLimits, StateInfo
from llm_gym.wrappers.as_text import make_text
from llm_gym_agents.algo import get_advantage
from llm_gym_agents.config import ConfigStore, EnvConfig, ModelConfig, ParallelConfig
from llm_gym_agents.engines.base import Engine, Sampling
from llm_gym_agents.engines.load import check_settings, load_engine, settings_of
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn.optimizer import bytes_of_state
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.model.lean_layers import recompute_contexts
from llm_gym_agents.model.load import (
    TINY_SPREAD,
    ModelShape,
    load_config,
    load_model,
    load_tokenizer,
    tiny_llama,
)
from llm_gym_agents.model.weights import (
    compute_dtype,
    is_sharded,
    keep_trained_in_float32,
    without_dropout,
)
from llm_gym_agents.rollouts.mix import MixedEnv
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.text import tokenizers
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.trainer.memory_plan import MemoryPlan, plan_memory

MOST_TURNS = 1_000
"""Turn limit of an episode to imitate, if the environment has none."""
MOST_CACHED = 1 << 19
"""Tokens in an engine's KV cache, if the model's context allows as many."""
DEFAULT_CONTEXT = 2048
"""Context length of a model that states none, as vLLM assumes it."""
LORA_ALPHA = 16
"""Alpha of LoRA adapters; it is divided by the rank, so one learning rate suits every rank."""


def is_main(settings: ParallelConfig) -> bool:
    """Return whether this is the main process; works before it has joined the others."""
    return settings.mode == "none" or os.environ.get("RANK", "0") == "0"


def join_processes(config: ConfigStore) -> SingleProcess:
    """Return the processes of this run; under ``parallel.mode`` it joins the others."""
    if config.parallel.mode == "none":
        return SINGLE_PROCESS
    from llm_gym_agents.trainer.process_group import join

    ranks = join(config.parallel.mode, device=config.model.device)
    if ranks.device.type == "cuda":
        config.model.device = str(ranks.device)
    return ranks


def sync_config(config: ConfigStore) -> None:
    """Join the other processes, if any, and use the main process's output folder.

    Processes that ``torchrun`` restarts after one was lost resume from the last checkpoint.
    """
    if config.parallel.mode == "none":
        return
    ranks = join_processes(config)
    config.checkpoint.output_dir = ranks.broadcast(config.checkpoint.output_dir)
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")):
        config.checkpoint.resume = True


# --- environments ------------------------------------------------------------------------


def build_pool(config: ConfigStore, env: EnvSource, rows: int) -> TextEnvPool:
    """Return ``rows`` environments with the config's turn limit."""
    limit = config.inference.max_turns
    wrappers: list[Callable[[Any], Any]] = []
    if limit is not None:
        wrappers.append(lambda made: EpisodeLimits(made, max_turns=limit))
    if get_advantage(config.training.adv_estimator).needs_states:
        wrappers.append(StateInfo)
    source, settings = _source(config.environment, env)
    pool = TextEnvPool(
        source,
        rows,
        workers=min(config.environment.workers, rows),
        timeout=config.environment.timeout,
        wrappers=wrappers,
        **settings,
    )
    if config.environment.mix:
        pool.env_id = config.environment.env_label
    return pool


def build_one_env(config: ConfigStore, env: EnvSource) -> gym.Env[str, str]:
    """Return one environment as in the pool; without a turn limit it gets ``MOST_TURNS``."""
    source, settings = _source(config.environment, env)
    limit = config.inference.max_turns
    return EpisodeLimits(make_text(source, **settings), max_turns=limit or MOST_TURNS)


def _source(settings: EnvConfig, env: EnvSource) -> tuple[EnvSource, dict[str, Any]]:
    if isinstance(env, type) and issubclass(env, BaseEnvironment):
        # Its config is the environment section, where it finds max_steps and its own settings.
        return functools.partial(as_gym, env, settings), {}
    return env, settings.kwargs_of(env) if isinstance(env, str) else {}


def training_env(
    settings: EnvConfig,
    environment: EnvSource | None,
    dataset: Any,
    collate_fn: Callable[[Any], dict[str, Any]] | None,
) -> EnvSource:
    """Return the environment to play: the given one, the data set's, or the config's."""
    if environment is not None and dataset is not None:
        raise ConfigError("pass an environment or a dataset, got both")
    if settings.mix:
        if environment is not None or dataset is not None:
            raise ConfigError("environment.mix is set, so pass neither environment nor dataset")
        kwargs = {env_id: settings.kwargs_of(env_id) for env_id in settings.mix}
        try:
            for env_id in kwargs:
                find_spec(env_id)
        except ConfigError as error:
            raise ConfigError(f"environment.mix must have ids of environments: {error}") from error
        return functools.partial(MixedEnv, kwargs)
    if dataset is not None:
        return dataset_env(settings, dataset, collate_fn)
    found = environment if environment is not None else settings.env_id
    if found is None:
        raise ConfigError("pass an environment or set config.environment.env_id, got neither")
    if isinstance(found, str):
        find_spec(found)
    return found


def dataset_env(
    settings: EnvConfig, dataset: Any, collate_fn: Callable[[Any], dict[str, Any]] | None
) -> EnvSource:
    """Return an environment that asks the questions of ``dataset``."""
    from llm_gym.envs.questions.dataset import as_dataset_env

    made: EnvSource = as_dataset_env(dataset, collate_fn=collate_fn, **settings.env_kwargs)
    return made


# --- the model ---------------------------------------------------------------------------


def language_model(
    config: ConfigStore,
    env: EnvSource,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model to train and its tokenizer: the given ones, or else the config's.

    With the precision ``auto``, a given model keeps its own precision.
    """
    settings = config.model
    if model is not None:
        assert tokenizer is not None, "see check_model"
        model.to(device=device_of(settings.device))
        if settings.dtype != "auto":
            model.to(dtype=_kept_dtype(settings, settings.device))
    elif settings.is_embedded:
        if tokenizer is None:
            played = config.environment.env_ids if config.environment.mix else [env]
            known = all(isinstance(each, str) for each in played)
            envs = {str(each): config.environment.kwargs_of(str(each)) for each in played}
            tokenizer = tiny_tokenizer(envs) if known else tokenizers.byte_tokenizer()
        model = tiny_llama(
            tokenizer, layers=settings.tiny_layers, spread=TINY_SPREAD, seed=config.training.seed
        )
        device = device_of(settings.device)
        model.to(device=device, dtype=_kept_dtype(settings, device))
    else:
        check_memory(config, settings.model_name)
        model, own = load_lm(settings, settings.model_name)
        tokenizer = tokenizer or own
    rows = len(model.get_input_embeddings().get_parameter("weight"))
    if len(tokenizer) > rows:
        raise ConfigError(
            f"the tokenizer must have at most the {rows} tokens of the model's embedding, got "
            f"{len(tokenizer)}; pass the tokenizer that the model was made with"
        )
    return prepare_lm(settings, model), tokenizer


def check_model(settings: ModelConfig, model: Any, tokenizer: Any) -> None:
    """Raise ``ConfigError`` if a given model or tokenizer cannot be trained."""
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ConfigError(
            f"tokenizer must be a transformers tokenizer, got {type(tokenizer).__name__}; "
            "AutoTokenizer.from_pretrained loads one"
        )
    if model is None:
        return
    name = type(model).__name__
    if hasattr(model, "merge_and_unload"):
        raise ConfigError(
            f"model must be without adapters, got {name}; set config.model.lora_rank to train some "
            "on its base, or pass model.merge_and_unload()"
        )
    if not isinstance(model, PreTrainedModel) or model.get_output_embeddings() is None:
        raise ConfigError(
            f"model must be a transformers causal language model, got {name}; "
            "AutoModelForCausalLM.from_pretrained loads one, and config.model.model_name names one"
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ConfigError(f"model must have its weights, got a {name} on the device meta")
    if not settings.lora_rank and not any(
        parameter.requires_grad for parameter in model.parameters()
    ):
        raise ConfigError(
            f"model must have a weight that can be trained, got a {name} that is frozen; "
            "model.requires_grad_(True) unfreezes them, or set config.model.lora_rank"
        )
    if tokenizer is None:
        raise ConfigError("a model that is passed in needs its tokenizer as well")


def check_memory(config: ConfigStore, path: str) -> None:
    """Raise ``ConfigError`` if training the model at ``path`` needs more than the GPU has."""
    device = device_of(config.model.device)
    # The plan is for one card; FSDP spreads the weights over all of them.
    if config.parallel.mode != "fsdp" and torch.device(device).type == "cuda":
        own = load_config(path, trust_remote_code=config.model.trust_remote_code)
        plan_run(config, own).check(torch.cuda.get_device_properties(device).total_memory)


def load_lm(settings: ModelConfig, path: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model at ``path`` and its tokenizer, with device and precision of the settings."""
    trust, device = settings.trust_remote_code, device_of(settings.device)
    dtype = str(_kept_dtype(settings, device)).removeprefix("torch.")
    lm = load_model(path, dtype=dtype, device=device, trust_remote_code=trust)
    return lm, load_tokenizer(path, trust_remote_code=trust)


def plan_run(config: ConfigStore, own: Any) -> MemoryPlan:
    """Return the memory plan of one GPU; ``own`` is the transformers config of the model."""
    settings, inference = config.model, config.inference
    served = inference.backend == "vllm"
    stated = getattr(own.get_text_config(), "max_position_embeddings", None)
    longest = inference.engine.get("max_model_len") or stated or DEFAULT_CONTEXT
    rows = min(inference.num_envs, config.training.batch_size)
    device = torch.device("cuda")
    narrow = compute_dtype(settings.dtype, device) != torch.float32
    return plan_memory(
        ModelShape.of(own, trust_remote_code=settings.trust_remote_code),
        micro_batch_tokens=config.training.micro_batch_tokens,
        lora_rank=settings.lora_rank,
        kept_bytes=2 if settings.lora_rank and narrow else 4,
        optimizer_bytes=bytes_of_state(config.training.optimizer, lora_rank=settings.lora_rank),
        checkpointing=settings.gradient_checkpointing,
        narrow=narrow,
        has_reference=config.training.kl != "none",
        engine_tokens=max(longest, min(rows * longest, MOST_CACHED)) if served else 0,
        engine_sleeps=bool(inference.engine.get("sleeps", True)),
    )


def _kept_dtype(settings: ModelConfig, device: str) -> torch.dtype:
    """Return the precision of loaded weights: float32, unless they stay frozen."""
    if not settings.lora_rank:
        return torch.float32
    return compute_dtype(settings.dtype, torch.device(device.replace("auto", "cpu")))


def device_of(wanted: str) -> str:
    """Return the device that ``wanted`` means on this machine."""
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    cards = torch.cuda.device_count() if kind == "cuda" else int(torch.backends.mps.is_available())
    if kind != "cpu" and int(number or 0) >= cards:
        raise ConfigError(
            f"model.device must be a device of this machine, got {wanted!r}, of which torch "
            f"{torch.__version__} finds {cards}; auto takes the best there is"
        )
    return wanted


def prepare_lm(settings: ModelConfig, lm: PreTrainedModel) -> PreTrainedModel:
    """Return ``lm`` with adapters and memory savings as the settings say."""
    if settings.lora_rank:
        lm = _add_lora(lm, settings.lora_rank)
    if settings.gradient_checkpointing:
        lm.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": recompute_contexts}
        )
        lm.enable_input_require_grads()
    without_dropout(lm)
    return lm


def _add_lora(lm: PreTrainedModel, rank: int) -> PreTrainedModel:
    require_package("peft", "model.lora_rank", "lora")
    from peft import LoraConfig, inject_adapter_in_model

    # To peft's types what comes back is any module; it is lm.
    settings = LoraConfig(r=rank, lora_alpha=LORA_ALPHA, target_modules="all-linear")
    adapted: PreTrainedModel = inject_adapter_in_model(settings, lm)
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    keep_trained_in_float32(adapted)
    return adapted


def tiny_tokenizer(envs: Mapping[str, dict[str, Any]]) -> PreTrainedTokenizerBase:
    """Return a tokenizer of the words of ``envs`` (id → settings); of bytes without a player."""
    texts, further, whole, spells = [], [], set(), False
    for env_id, settings in envs.items():
        made = make_text(env_id, **settings)
        try:
            if isinstance(made.unwrapped, TextEnv) and made.spec is not None:
                own = tokenizers.collect_vocabulary([made.spec], rules=True)
                further += tokenizers.collect_vocabulary(
                    [made.spec], tokenizers.FURTHER_EPISODES, seed=tokenizers.FURTHER_SEED
                )
                whole |= tokenizers.common_words(own)
            elif not isinstance(made.unwrapped, TextEnv) and made.has_wrapper_attr("random_action"):
                with explain_failures(env_id):
                    own, spells = tokenizers.texts_of(made), True  # its numbers may never end
                whole |= tokenizers.common_words(own, least=0.0)
            else:
                return tokenizers.byte_tokenizer()
            texts += own
        finally:
            close_user_env(made)
    words = tokenizers.word_tokenizer(texts)
    # A word of further episodes may be no token.
    spells = spells or any(words.unk_token_id in ids for ids in words(further).input_ids)
    return tokenizers.piece_tokenizer(texts, whole) if spells else words


# --- who plays ---------------------------------------------------------------------------


def build_engine(
    config: ConfigStore, lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Engine:
    """Return the engine that samples with ``lm``, or with a synchronised copy."""
    backend, own = config.inference.backend, config.inference.engine
    apart = backend != "transformers" or is_sharded(lm)
    if not apart:
        # Only these: the model section decides the rest, for this engine has the trainer's model.
        check_settings(backend, own, known=("max_rows", "prefix_cache"))
        return TransformersEngine(lm, tokenizer=tokenizer, **own)
    computed = compute_dtype(config.model.dtype, lm.device)
    common = {
        "dtype": str(computed).removeprefix("torch."),
        "trust_remote_code": config.model.trust_remote_code,
    }
    if backend == "transformers":
        common |= {"device": str(lm.device)}
    if ":" in backend:  # one of the user's own takes what it names
        common = {name: common[name] for name in settings_of(backend) if name in common}
    # Only the shape of these weights matters: the trainer pushes its weights later.
    with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
        save_lm(Path(folder), lm, tokenizer)
        return load_engine(folder, backend, common | vllm_memory_settings(config, lm) | own)[0]


def vllm_memory_settings(config: ConfigStore, lm: PreTrainedModel) -> dict[str, Any]:
    """Return vLLM's memory settings on the trainer's GPU; empty elsewhere."""
    if config.inference.backend != "vllm" or lm.device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(lm.device)
    made, used = plan_run(config, lm.config), total - free
    return {
        "gpu_memory_utilization": made.engine_share(used=used, total=total),
        "sleeps": made.engine_must_sleep(used=used, total=total),
    }


def build_sampler(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> Sampler:
    """Return the sampler that plays ``env``, and ``held_out`` in evaluations, with ``lm``."""
    isolated_batch_size = config.inference.isolated_batch_size
    rows = min(
        config.inference.num_envs, config.training.batch_size, isolated_batch_size or sys.maxsize
    )
    with ExitStack() as undo:  # on an error, end the processes of the engine
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
        ChatFormat.from_tokenizer(tokenizer, template_options=settings.template_options),
        sampling=Sampling(
            settings.max_tokens, settings.temperature, stop_strings=tuple(settings.stop)
        ),
        context=settings.context,
        system_prompt=settings.system_prompt,
        run_seed=config.training.seed,
        sync_replies=settings.backend == "transformers",
    )

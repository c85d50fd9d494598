"""From a config to the parts of a run: model, tokenizer, engine, policy, environments."""

from llm_gym_agents.build.arguments import check_arguments, list_callbacks
from llm_gym_agents.build.envs import (
    build_one_env,
    build_pool,
    dataset_env,
    training_env,
    unsaved_args,
)
from llm_gym_agents.build.model import (
    build_lm,
    check_tokenizer,
    device_of,
    is_embedded,
    language_model,
    load_lm,
    prepare_lm,
    tiny_tokenizer,
)
from llm_gym_agents.build.players import build_engine, build_policy, build_sampler

__all__ = [
    "build_engine",
    "build_lm",
    "build_one_env",
    "build_policy",
    "build_pool",
    "build_sampler",
    "check_arguments",
    "check_tokenizer",
    "dataset_env",
    "device_of",
    "is_embedded",
    "language_model",
    "list_callbacks",
    "load_lm",
    "prepare_lm",
    "tiny_tokenizer",
    "training_env",
    "unsaved_args",
]

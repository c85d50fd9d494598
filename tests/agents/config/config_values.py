"""A value for every setting that is not its default."""

from dataclasses import fields

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.fields import checked
from llm_gym_agents.config.section import field_types

CANDIDATES = (
    True, False, 3, 5, 0.5, 0.25, 7.5, 0.0078125, "grpo", "cispo", "cuda:1", "some/where", "dev",
    "separate", "bfloat16", "vllm", "chunked", "adamw_8bit", "observation", "token",
    "add", "token-sum", "loss", "cosine", "solver", "fsdp", "turn", "store",
    {"rooms": 4, "style": "terse", "shaping": True, "deep": {"a": [1, None]}},
)  # fmt: skip
SETTINGS = [
    (section.name, name, hint)
    for section in fields(ConfigStore)
    for name, hint in field_types(section.name).items()
]


def other_value(section, name, hint):
    """Return a value that ``section.name`` takes and that is not its default."""
    default = getattr(getattr(ConfigStore(), section), name)
    for candidate in CANDIDATES:
        try:
            value = checked(name, hint, candidate)
        except ConfigError:
            continue
        if value != default:
            return value
    raise AssertionError(f"no value for {section}.{name}")


def everything_changed():
    """Return a config in which no setting has its default."""
    config = ConfigStore()
    for section, name, hint in SETTINGS:
        setattr(getattr(config, section), name, other_value(section, name, hint))
    return config

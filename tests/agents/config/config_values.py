"""A value for every setting that is not its default."""

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.schema import SECTIONS

CANDIDATES = (
    True, False, 3, 5, 0.5, 0.25, 7.5, 0.0078125, "grpo", "cispo", "cuda:1", "some/where", "dev",
    "wandb/x", "separate", "bfloat16", "vllm", "chunked", "adamw_8bit", "observation", "token",
    "add", "token-sum", "loss", "cosine", "solver", "fsdp", "turn", "signal",
    ["###"], {"rooms": 4, "style": "terse", "shaping": True, "deep": {"a": [1, None]}},
    {"some/where": 2.0},
)  # fmt: skip
SETTINGS = [(name, setting) for name, cls in SECTIONS.items() for setting in cls.model_fields]


def other_value(section, name):
    """Return a value that ``section.name`` takes and that is not its default."""
    default = getattr(getattr(ConfigStore(), section), name)
    for candidate in CANDIDATES:
        changed = SECTIONS[section]()
        try:
            setattr(changed, name, candidate)
        except ConfigError:
            continue
        if getattr(changed, name) != default:
            return getattr(changed, name)
    raise AssertionError(f"no value for {section}.{name}")


def everything_changed():
    """Return a config in which no setting has its default."""
    config = ConfigStore()
    for section, name in SETTINGS:
        setattr(getattr(config, section), name, other_value(section, name))
    return config

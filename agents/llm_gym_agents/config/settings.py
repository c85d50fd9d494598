"""``Settings``: the sections of a config, each setting checked at its assignment.

What settings mean together is for ``rules`` and ``without_effect`` to say, which read this;
``ConfigStore`` puts all of it behind one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from llm_gym.core.text import did_you_mean
from llm_gym.errors import ConfigError
from llm_gym_agents.config.parallel import ParallelConfig
from llm_gym_agents.config.ray import RayConfig
from llm_gym_agents.config.section import Section, UnknownSettingError, elsewhere, field_types
from llm_gym_agents.config.sections import (
    CheckpointConfig,
    EnvironmentConfig,
    InferenceConfig,
    ModelConfig,
)
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.config.warm_start import WarmStartConfig


@dataclass(kw_only=True)
class Settings:
    """Every setting of a run, by section."""

    model: ModelConfig = field(default_factory=ModelConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    ray: RayConfig = field(default_factory=RayConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)

    def __setattr__(self, name: str, value: Any) -> None:
        section = Section.all_sections.get(name)
        if section is None:
            raise _unknown_section(name)
        if type(value) is not section:
            example = next(iter(field_types(name)))
            raise ConfigError(
                f"config.{name} must be a {section.__name__}, got {type(value).__name__}; "
                f"assign its settings one by one, such as config.{name}.{example}"
            )
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Only called for names that do not exist. Copying and pickling ask for such names too.
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown_section(name)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return every setting, by section, as JSON values."""
        return {each.name: getattr(self, each.name).to_dict() for each in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return a config with the settings of ``data``; those it lacks have their defaults."""
        config = cls()
        config.update(data)
        return config

    def update(self, data: Mapping[str, Mapping[str, Any]]) -> None:
        """Assign the settings of ``data``; the others stay."""
        _check_mapping("a config", data)
        for name, settings in data.items():
            if name not in Section.all_sections:
                raise _unknown_section(str(name))
            _check_mapping(name, settings)
            for setting, value in settings.items():
                setattr(getattr(self, name), str(setting), value)

    def diff(self, other: Settings | None = None) -> dict[str, dict[str, Any]]:
        """Return the settings that differ from those of ``other``, or from the defaults."""
        base = (other or type(self)()).to_dict()
        changed = {
            name: {key: value for key, value in settings.items() if value != base[name][key]}
            for name, settings in self.to_dict().items()
        }
        return {name: settings for name, settings in changed.items() if settings}


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a mapping of names to values, got {value!r}")


def _unknown_section(name: str) -> UnknownSettingError:
    meant = did_you_mean(name, Section.all_sections) or elsewhere(name)
    known = ", ".join(each.name for each in fields(Settings))
    return UnknownSettingError(f"config has no section {name!r}{meant}; it has {known}")

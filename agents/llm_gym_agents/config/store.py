"""``ConfigStore``: the settings of a run, checked at each assignment and as a whole.

>>> config = ConfigStore()
>>> config.training.learning_rate = 3e-4
>>> config.diff()
{'training': {'learning_rate': 0.0003}}
>>> config.training.gamma = 2
Traceback (most recent call last):
    ...
llm_gym.core.errors.ConfigError: training.gamma must be less than or equal to 1, got 2
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config.files import read_config, write_config
from llm_gym_agents.config.schema import SECTIONS, Settings, unknown_section


class ConfigStore(Settings):
    """The settings of a run, by section. ``check`` it before use: each alone is always right."""

    def __setattr__(self, name: str, value: Any) -> None:
        section = SECTIONS.get(name)
        if section is None:
            raise unknown_section(name)
        if type(value) is not section:
            raise ConfigError(
                f"config.{name} must be a {section.__name__}, got {type(value).__name__}; assign "
                f"its settings one by one, such as config.{name}.{next(iter(section.model_fields))}"
            )
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]
        raise unknown_section(name)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return every setting, by section, as JSON values."""
        return self.model_dump()

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
            if name not in SECTIONS:
                raise unknown_section(str(name))
            _check_mapping(name, settings)
            for setting, value in settings.items():
                setattr(getattr(self, name), str(setting), value)

    def diff(self, other: ConfigStore | None = None) -> dict[str, dict[str, Any]]:
        """Return the settings that differ from those of ``other``, or from the defaults."""
        base = (other or type(self)()).to_dict()
        changed = {
            name: {key: value for key, value in settings.items() if value != base[name][key]}
            for name, settings in self.to_dict().items()
        }
        return {name: settings for name, settings in changed.items() if settings}

    def check(self) -> None:
        """Raise a ``ConfigError`` if settings contradict each other or cannot be trained with."""
        from llm_gym_agents.config.rules import first_problem

        problem = first_problem(self)
        if problem is not None:
            raise ConfigError(problem)

    def unused_settings(self) -> list[str]:
        """Return a sentence for each setting that was changed and has no effect here."""
        from llm_gym_agents.config.rules import unused_settings

        return unused_settings(self, self.diff())

    def save(self, path: str | Path) -> None:
        """Write every setting to a ``.json``, ``.yaml`` or ``.yml`` file."""
        write_config(self.to_dict(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the config in a ``.json``, ``.yaml`` or ``.yml`` file."""
        data = read_config(Path(path))
        try:
            return cls.from_dict(data)
        except ConfigError as error:
            raise ConfigError(f"cannot use {path}: {error}") from error


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a mapping of names to values, got {value!r:.100}")

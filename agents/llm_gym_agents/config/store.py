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

from pathlib import Path
from typing import Self

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config.files import read_config, write_config
from llm_gym_agents.config.schema import Settings


class ConfigStore(Settings):
    """The settings of a run. ``check`` it before use: each setting alone is always right."""

    def check(self) -> None:
        """Raise a ``ConfigError`` if settings contradict each other or cannot be trained with."""
        from llm_gym_agents.config.rules import first_problem

        problem = first_problem(self)
        if problem is not None:
            raise ConfigError(problem)

    def unused_settings(self) -> list[str]:
        """Return a sentence for each setting that was changed and has no effect here."""
        from llm_gym_agents.config.unused_settings import unused_settings

        return unused_settings(self)

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

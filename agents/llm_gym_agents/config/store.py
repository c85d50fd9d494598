"""``ConfigStore``: every setting of a run, checked at each assignment and as a whole.

>>> config = ConfigStore()
>>> config.training.learning_rate = 3e-4
>>> config.diff()
{'training': {'learning_rate': 0.0003}}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from llm_gym.errors import ConfigError
from llm_gym_agents.config.settings import Settings


@dataclass(kw_only=True)
class ConfigStore(Settings):
    """The settings of a run. ``check`` it before use: each setting alone is always right."""

    def check(self) -> None:
        """Raise a ``ConfigError`` if settings contradict each other or cannot be trained with."""
        from llm_gym_agents.config.rules import first_problem

        problem = first_problem(self)
        if problem is not None:
            raise ConfigError(problem)

    def without_effect(self) -> list[str]:
        """Return a sentence for each setting that was changed and has no effect here."""
        from llm_gym_agents.config.without_effect import settings_without_effect

        return settings_without_effect(self)

    # --- as files --------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write every setting to a ``.json``, ``.yaml`` or ``.yml`` file."""
        from llm_gym_agents.config.files import write_config

        write_config(self.to_dict(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the config in a ``.json``, ``.yaml`` or ``.yml`` file."""
        from llm_gym_agents.config.files import read_config

        data = read_config(Path(path))
        try:
            return cls.from_dict(data)
        except ConfigError as error:
            raise ConfigError(f"cannot use {path}: {error}") from error

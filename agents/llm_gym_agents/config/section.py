"""``Section``: a dataclass that checks every assignment."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar, get_type_hints

from llm_gym.core.text import closest, did_you_mean
from llm_gym.errors import ConfigError
from llm_gym_agents.config.fields import checked


class UnknownSettingError(ConfigError, AttributeError):
    """A setting or a section that does not exist."""


class Section:
    """Settings that belong together. Subclasses are dataclasses and name their ``section``."""

    section: ClassVar[str]
    all_sections: ClassVar[dict[str, type[Section]]] = {}

    def __init_subclass__(cls, section: str) -> None:
        cls.section = section
        Section.all_sections[section] = cls

    def __setattr__(self, name: str, value: Any) -> None:
        hints = field_types(self.section)
        if name not in hints:
            raise _unknown(self.section, name)
        object.__setattr__(self, name, checked(f"{self.section}.{name}", hints[name], value))

    def __getattr__(self, name: str) -> Any:
        # Only called for names that do not exist. Copying and pickling ask for such names too.
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(self.section, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@cache
def field_types(section: str) -> dict[str, Any]:
    """Return what each setting of ``section`` takes, in the order of the class."""
    hints = get_type_hints(Section.all_sections[section], include_extras=True)
    fields = dataclasses.fields(Section.all_sections[section])  # type: ignore[arg-type]
    return {field.name: hints[field.name] for field in fields}


def elsewhere(name: str) -> str:
    """Return a question with the full name of the setting ``name``, or nothing.

    It looks in every section: the right name in the wrong section is the commonest mistake.
    """
    homes = {
        setting: f"{section}.{setting}"
        for section in Section.all_sections
        for setting in field_types(section)
    }
    meant = closest(name, homes)
    return f" (did you mean {homes[meant]!r}?)" if meant else ""


def _unknown(section: str, name: str) -> UnknownSettingError:
    own = did_you_mean(name, field_types(section))
    is_elsewhere = any(name in field_types(other) for other in Section.all_sections)
    meant = elsewhere(name) if is_elsewhere or not own else own
    return UnknownSettingError(f"{section} has no setting {name!r}{meant}")

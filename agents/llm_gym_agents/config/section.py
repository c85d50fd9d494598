"""``Section``: a dataclass that checks every assignment."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar, get_type_hints

from llm_gym.errors import ConfigError
from llm_gym_agents.config.fields import checked, did_you_mean


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
        hints = field_types(type(self))
        if name not in hints:
            raise _unknown(type(self), name)
        object.__setattr__(self, name, checked(f"{self.section}.{name}", hints[name], value))

    def __getattr__(self, name: str) -> Any:
        # Only called for names that do not exist. Copying and pickling ask for such names too.
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(type(self), name)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@cache
def field_types(section: type[Section]) -> dict[str, Any]:
    """Return what each field of ``section`` takes, in the order of the class."""
    hints = get_type_hints(section, include_extras=True)
    fields = dataclasses.fields(section)  # type: ignore[arg-type]
    return {field.name: hints[field.name] for field in fields}


def elsewhere(name: str) -> str:
    """Return a question with the full name of the setting ``name``, or nothing.

    It looks in every section: the right name in the wrong section is the commonest mistake.
    """
    homes = {
        setting: f"{section.section}.{setting}"
        for section in Section.all_sections.values()
        for setting in field_types(section)
    }
    if name in homes:
        return f" (did you mean {homes[name]!r}?)"
    meant = did_you_mean(name, homes)
    for setting, home in homes.items():
        meant = meant.replace(f"{setting!r}", f"{home!r}")
    return meant


def _unknown(section: type[Section], name: str) -> UnknownSettingError:
    own = did_you_mean(name, field_types(section))
    is_elsewhere = any(name in field_types(other) for other in Section.all_sections.values())
    meant = elsewhere(name) if is_elsewhere or not own else own
    return UnknownSettingError(f"{section.section} has no setting {name!r}{meant}")

"""``ConfigStore``: the settings of a run, checked at each assignment and as a whole.

PyYAML reads ``1e-5`` as text and drops the first of two equal keys; both are corrected here. The
size of a file is bounded, and YAML aliases are refused, because a few lines of them can expand to
gigabytes.

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

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Set
from pathlib import Path
from typing import Any, Self

import yaml

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config.schema import SECTIONS, Settings, unknown_section
from llm_gym_agents.run.files import write_atomically


class ConfigStore(Settings):
    """Settings of a run, by section. Each is checked on assignment, all by ``check``."""

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

    to_dict = Settings.model_dump
    """Returns every setting, by section, as JSON values."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return a config with the settings of ``data``; missing settings get their defaults."""
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
        changed: dict[str, dict[str, Any]] = {}
        for name, settings in self.to_dict().items():
            for key, value in settings.items():
                if value != base[name][key]:
                    changed.setdefault(name, {})[key] = value
        return changed

    def check(self, *, light: bool = False, chosen: Set[str] | None = None) -> None:
        """Raise a ``ConfigError`` if settings contradict each other or cannot be trained with.

        ``light`` checks only what can be checked without importing torch, and ``chosen`` only these
        settings, because the others may still change.
        """
        from llm_gym_agents.config.rules import first_problem

        problem = first_problem(self, light=light, chosen=chosen)
        if problem is not None:
            raise ConfigError(problem)

    def save(self, path: str | Path) -> None:
        """Write every setting to a ``.json``, ``.yaml`` or ``.yml`` file."""
        path, data = Path(path), self.to_dict()
        if _suffix(path) in _YAML:
            text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
        else:
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        write_atomically(path, text)

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


_YAML = (".yaml", ".yml")
MAX_BYTES = 1 << 20
_SHOWN = 300


def read_config(path: Path) -> Any:
    """Return what the file at ``path`` holds."""
    is_yaml = _suffix(path) in _YAML
    try:
        if path.is_fifo():
            raise ValueError("it is a pipe, which may wait for ever")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"a config has at most {MAX_BYTES >> 20} MiB")
        text = data.decode("utf-8")
        if is_yaml:
            # Not ``yaml.load``'s loader but a subclass of the safe one.
            return yaml.load(text, _Loader) or {}
        return json.loads(text, object_pairs_hook=_no_twins)
    except RecursionError:
        raise ConfigError(f"cannot read {path}: it is nested too deeply") from None
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error)[:_SHOWN].split())
        raise ConfigError(f"cannot read {path}: {why}") from error


def named(data: dict[str, dict[str, Any]]) -> set[str]:
    """Return the full names of the settings in ``data``, with one name per dictionary key.

    >>> sorted(named({"training": {"gamma": 1}, "environment": {"env_kwargs": {"rooms": 2}}}))
    ['environment.env_kwargs.rooms', 'training.gamma']
    """
    found = set()
    for section, settings in data.items():
        for name, value in settings.items():
            full = f"{section}.{name}"
            found |= {f"{full}.{each}" for each in value} if isinstance(value, dict) else {full}
    return found


def _suffix(path: Path) -> str:
    if path.suffix not in (".json", *_YAML):
        raise ConfigError(f"a config file must end in .json, .yaml or .yml, got {path.name!r}")
    return path.suffix


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    [(name, count)] = Counter(name for name, _ in pairs).most_common(1) or [("", 0)]
    if count > 1:
        raise ConfigError(f"{name!r:.100} is there twice")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2 floats; it refuses duplicate keys."""

    def compose_node(self, parent: yaml.Node, index: int) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a config may not have aliases (*name)")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _no_twins([(str(key.value), None) for key, _ in node.value])
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)

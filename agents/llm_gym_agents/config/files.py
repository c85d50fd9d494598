"""Configs in JSON and YAML files.

PyYAML reads ``1e-5`` as text and drops the first of two equal keys; both are mended here. The
size is bounded, and YAML aliases are refused: with them a few lines stand for gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from llm_gym.core.errors import ConfigError
from llm_gym_agents.run.files import write_atomically

_YAML = (".yaml", ".yml")
MAX_BYTES = 1 << 20
_SHOWN = 300


def write_config(data: dict[str, Any], path: Path) -> None:
    """Write ``data`` in the format that the suffix of ``path`` names."""
    if _suffix(path) in _YAML:
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text)


def read_config(path: Path) -> Any:
    """Return what the file at ``path`` holds."""
    is_yaml = _suffix(path) in _YAML
    try:
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
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error)[:_SHOWN].split())
        raise ConfigError(f"cannot read {path}: {why}") from error


def named(data: dict[str, dict[str, Any]]) -> set[str]:
    """Return the full names of the settings in ``data``, those in a dictionary one by one.

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
    data = dict(pairs)
    if len(data) < len(pairs):
        seen: set[str] = set()
        twin = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ConfigError(f"{twin!r:.100} is there twice")
    return data


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2's floats, which refuses a key that is there twice."""

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

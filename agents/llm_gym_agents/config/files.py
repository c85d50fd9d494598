"""Configs in JSON and YAML files.

PyYAML reads ``1e-5`` as text and forgets the first of two equal keys; both are mended here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from llm_gym.errors import ConfigError
from llm_gym_agents.run.atomic import write_atomically

_YAML = (".yaml", ".yml")


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
        text = path.read_text("utf-8")
        if is_yaml:
            # Not ``yaml.load``'s loader but a subclass of the safe one.
            return yaml.load(text, _Loader) or {}
        return json.loads(text, object_pairs_hook=_no_twins)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {' '.join(str(error).split())}") from error


def _suffix(path: Path) -> str:
    if path.suffix not in (".json", *_YAML):
        raise ConfigError(f"a config file must end in .json, .yaml or .yml, got {path.name!r}")
    return path.suffix


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{twin!r} is there twice")
    return data


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2's floats, which refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _no_twins([(str(key.value), None) for key, _ in node.value])
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)

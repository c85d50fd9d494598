"""Every setting on the command line, as ``--training.learning-rate 1e-5``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llm_gym.cli.common import settings
from llm_gym_agents.config.fields import Settings
from llm_gym_agents.config.store import ConfigStore


def parse_args(
    argv: Sequence[str],
    default: ConfigStore | None = None,
    *,
    prog: str = "llm-gym train",
    description: str = "Every setting, with its default.",
) -> ConfigStore:
    """Return ``default`` with what ``argv`` changes; ``default`` itself stays as it is.

    A setting that does not exist, or a value that it does not take, ends the program with one
    sentence, and ``--help`` with a page.
    """
    import tyro

    return tyro.cli(
        ConfigStore,
        args=list(argv),
        default=ConfigStore() if default is None else default,
        prog=prog,
        description=description,
        registry=_registry(),
    )


def _registry() -> Any:
    """How tyro reads a dictionary: ``rooms=8 style=terse``."""
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Any]] | None:
        if info.type != Settings:
            return None
        return PrimitiveConstructorSpec(
            nargs="*",
            metavar="[NAME=VALUE ...]",
            instance_from_str=_pairs,
            is_instance=lambda value: isinstance(value, dict),
            str_from_instance=lambda value: [
                f"{name}={each if isinstance(each, str) else json.dumps(each)}"
                for name, each in value.items()
            ],
        )

    return registry


def _pairs(words: list[str]) -> dict[str, Any]:
    lost = [word for word in words if "=" not in word]
    if lost:
        raise ValueError(f"a setting must be NAME=VALUE, got {lost[0]!r}")
    return settings(words)

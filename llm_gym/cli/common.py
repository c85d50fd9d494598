"""Building an environment from command-line arguments."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

import gymnasium as gym

from llm_gym.errors import ConfigError


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add ``--set`` and ``--import``, which every command about an environment has."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the environment, such as --set rooms=8 (repeatable)",
    )
    parser.add_argument(
        "--import",
        action="append",
        default=[],
        dest="modules",
        metavar="MODULE",
        help="import a module first, which registers its environments",
    )


def settings(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as keyword arguments; values are JSON, or else plain text.

    >>> settings(["rooms=8", "style=terse", "shaping=true"])
    {'rooms': 8, 'style': 'terse', 'shaping': True}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not given:
            raise ConfigError(f"--set must be NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def make(options: argparse.Namespace, **extra: Any) -> gym.Env[str, str]:
    """Build the environment that ``options.env`` names: an id, or ``module:EnvClass``."""
    sys.path.insert(0, "")  # like ``python -m``: modules beside the user are found
    for module in options.modules:
        _import(module)
    kwargs = {**settings(options.set), **extra}
    try:
        if ":" in options.env and "/" not in options.env:
            module, _, name = options.env.partition(":")
            env_class = getattr(_import(module), name, None)
            if env_class is None:
                raise ConfigError(f"module {module} has no {name}")
            env: gym.Env[str, str] = env_class(**kwargs)
        else:
            env = gym.make(options.env, **kwargs)
    except (gym.error.Error, TypeError) as error:
        raise ConfigError(f"cannot build {options.env}: {error}") from error
    return env


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"cannot import {module}: {error}") from error

"""Building an environment from command-line arguments."""

import argparse
import functools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from llm_gym.cli.parser import add_repeated
from llm_gym.core.errors import ConfigError, LLMGymError, SettingError
from llm_gym.registry.lookup import cannot_build, find_spec
from llm_gym.registry.user_code import close_user_env, import_user_module


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add ``--set`` and ``--import``, which every command about an environment has."""
    add_imports(parser)
    add_repeated(parser, "--set", "a setting of the environment, such as --set rooms=8")


def add_imports(parser: argparse.ArgumentParser) -> None:
    """Add ``--import``."""
    parser.add_argument(
        "--import",
        action="append",
        default=[],
        dest="modules",
        metavar="MODULE",
        help="import a module that registers environments (such as minigrid)",
    )


def settings(pairs: list[str], option: str = "--set") -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as keyword arguments.

    A value is JSON, or True, False or None as in Python, or else plain text.

    >>> settings(["rooms=8", "style=terse", "shaping=true", "is_slippery=False"])
    {'rooms': 8, 'style': 'terse', 'shaping': True, 'is_slippery': False}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ConfigError(f"{option} must be NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = _PYTHON.get(value, value)
    return found


_PYTHON: Mapping[str, bool | None] = {"True": True, "False": False, "None": None}
"""As text they would be true: ``is_slippery=False`` would still slip."""


def import_modules(options: argparse.Namespace) -> None:
    """Import what ``--import`` names."""
    given = vars(options)
    named = [*options.modules, given.get("env") or given.get("target") or ""]
    if any(":" in name or name in options.modules for name in named):
        # Like ``python -m``: modules beside the user are found, when the user names some.
        sys.path.insert(0, "")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame prints a greeting otherwise
    for module in options.modules:
        import_user_module(module)


def check_model_path(path: str) -> None:
    """Raise if ``path`` is a folder that does not exist, or a hub name and no hub can be reached.

    A folder with a pipe or a device is refused too, because reading it might never end. If the hub
    cannot be reached, a model in its cache is used.
    """
    if Path(path).is_dir():
        for file in Path(path).glob("*"):
            if file.is_fifo() or file.is_char_device():
                raise ConfigError(
                    f"a model folder must hold only regular files, got {file}; remove it"
                )
        if not Path(path, "config.json").is_file():
            raise ConfigError(f"a model folder must hold config.json; {path} has none")
        return
    looks_local = path.startswith((".", "/", "~", "\\")) or path.count("/") > 1
    if looks_local or ("/" in path and Path(path).parent.is_dir()):  # runs/Ech is a misspelt run
        raise ConfigError(f"there is no model folder {path!r}; pass a folder or a hub name")
    is_cached = hub_cache(path).is_dir()
    if "/" not in path and not is_cached:  # the cache may have a model with an old name, as gpt2
        raise ConfigError(f"there is no model folder {path!r}; a hub model is named OWNER/NAME")
    if {os.environ.get(name, "").upper() for name in _OFFLINE} & {"1", "ON", "YES", "TRUE"}:
        return
    try:
        _check_hub(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    except ConfigError:
        if not is_cached:
            raise
        os.environ["HF_HUB_OFFLINE"] = "1"  # its package would try again for minutes


def hub_cache(name: str) -> Path:
    """Return the folder of a model in the cache of the Hugging Face hub."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    return cache / f"models--{name.replace('/', '--')}"


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_HUB_S = 10


@functools.cache
def _check_hub(url: str) -> None:
    """Raise if the hub does not answer."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(url, method="HEAD"), timeout=_HUB_S).close()
    except HTTPError:  # an answer of any kind
        pass
    except (OSError, ValueError) as error:
        name = url.partition("://")[2] or url
        raise ConfigError(
            f"cannot reach {name}, and its cache has no such model; pass a model folder"
        ) from error


def make(options: argparse.Namespace, **extra: Any) -> gym.Env[str, str]:
    """Build the environment that ``options.env`` names: an id, ``module:ID`` or ``module:Class``.

    ``AsText`` wraps an environment that is not text.
    """
    import_modules(options)
    return build(options.env, {**settings(options.set), **extra})


def build(env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[str, str]:
    """Return a text environment; any error while it is built becomes one sentence."""
    from llm_gym.wrappers.as_text import (  # half of what is imported
        ensure_text,
        speaks_text,
        split_settings,
    )

    spec = find_spec(env_id)
    try:
        own, words = split_settings(spec, kwargs)
        env: gym.Env[Any, Any] = gym.make(spec, **own)
        if speaks_text(env):
            return ensure_text(env, **words)
        close_user_env(env)
        # By id, so that ``unwrapped`` is a text environment as well.
        return gym.make("llm_gym/AsText-v0", env_id=env_id, env_kwargs=own, **words)
    except (Exception, SystemExit) as error:
        if isinstance(error, LLMGymError) and not isinstance(error, SettingError):
            raise
        raise cannot_build(env_id, error) from error

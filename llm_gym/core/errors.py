"""Errors raised by llm_gym.

Every error is an ``LLMGymError`` *and* the builtin it refines, so callers may catch either. Each
takes one string, so it can be pickled and sent to another process. Long strings are shortened,
because a wrong value may be a megabyte. Text written by a model never raises an exception: the
answer to a bad move is an observation.
"""

import os
from functools import cache

_MOST = 4000  # characters of a message, of both its ends


class LLMGymError(Exception):
    """Base class of every error raised by llm_gym.

    >>> str(ConfigError("got " + "x" * 100_000 + "; give less"))[-30:]
    'xxxxxxxxxxxxxxxxxxx; give less'
    >>> str(ConfigError(KeyError("size")))
    "'size'"
    """

    def __init__(self, message: object = "") -> None:
        message = str(message)
        if len(message) > _MOST:
            message = f"{message[: _MOST // 2]} ... {message[-_MOST // 2 :]}"
        super().__init__(message)


class ConfigError(LLMGymError, ValueError):
    """A constructor, ``reset`` or a function was given a value that it does not support."""


class SettingError(ConfigError, TypeError):
    """A constructor was given a setting that it does not have."""


class ActionTypeError(LLMGymError, TypeError):
    """``step`` was given something that is not a ``str``."""


class ContractError(LLMGymError, AssertionError):
    """An environment breaks a rule that every text environment keeps."""


class RecordError(LLMGymError, ValueError):
    """A line of a file is not a valid episode or question."""


class WorkerError(LLMGymError, RuntimeError):
    """One environment of a vector environment raised, hung or died."""


class RemoteError(LLMGymError, ConnectionError):
    """An environment server cannot be reached, refuses a request, or sends an invalid answer."""


class MissingExtraError(LLMGymError, ImportError):
    """A feature needs a package that is not installed."""


def error_words(error: BaseException) -> str:
    r"""Return type and message of an exception in one line, even if its ``str`` fails.

    >>> error_words(ValueError("a word\nand another")), error_words(SystemExit())
    ('ValueError: a word and another', 'SystemExit')
    """
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - of others' code
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@cache
def install_command(extra: str) -> str:
    """Return the ``pip install`` that adds an extra to this installation.

    A checkout or a local wheel is named by its path, because PyPI may not have this version.
    """
    import json
    from importlib import metadata

    try:
        origin = json.loads(metadata.distribution("llm-gym").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # a source tree on PYTHONPATH
        origin = {}
    url = origin.get("url", "")
    if not url:
        return f'pip install "llm-gym[{extra}]"'
    if not url.startswith("file:"):
        return f'pip install "llm-gym[{extra}] @ {url}"'
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(url).path)
    if os.name == "nt":
        path = path.removeprefix("/")  # before the drive
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{path}[{extra}]"'


def require_package(package: str, feature: str, extra: str | None = None) -> None:
    """Raise ``MissingExtraError`` with the command that installs ``package`` if it is missing."""
    from importlib import util

    if util.find_spec(package) is None:
        command = install_command(extra or package)
        raise MissingExtraError(f"{feature} needs {package}. Install it with: {command}")

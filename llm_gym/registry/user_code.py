"""User code: modules and environments that may raise anything.

A program that calls ``gym.make`` gets the original exception. On the command line, the error is one
sentence: what was raised, and in which file and line.
"""

import importlib
import logging
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from llm_gym.core.errors import ConfigError, LLMGymError, error_words
from llm_gym.core.text import closest

_AROUND = ("llm_gym", "llm_gym_agents", "gymnasium")
CREATOR = " was raised from the environment creator"
"""Text that Gymnasium appends to the message of the environment's author."""
_log = logging.getLogger(__name__)
_LIBRARIES = tuple(map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))


def import_user_module(module: str) -> ModuleType:
    """Import ``module``; any problem becomes a ``ConfigError``.

    >>> import_user_module("lost")
    Traceback (most recent call last):
        ...
    llm_gym.core.errors.ConfigError: cannot import lost: it is neither in this folder nor installed
    """
    if not module:
        raise ConfigError("a module is named as in an import statement, got ''; name one")
    path = Path(module)
    if path.suffix == ".py" or len(path.parts) != 1:
        meant = ".".join(path.with_suffix("").parts).strip("./")
        is_below = not path.is_absolute() and ".." not in path.parts
        if not (path.suffix == ".py" and is_below and path.is_file()):
            raise ConfigError(
                f"a module is named as in an import statement, got {module!r}; if it lies here, "
                f"write {meant}"
            )
        module = meant
    try:
        return importlib.import_module(module)
    except LLMGymError:
        raise
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            meant = closest(module, (file.stem for file in Path().glob("*.py")))
            hint = f"; did you mean {meant}?" if meant else ""
            raise ConfigError(
                f"cannot import {module}: it is neither in this folder nor installed{hint}"
            ) from error
        raise ConfigError(f"cannot import {module}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"cannot import {module}: {describe_error(error)}") from error


def import_object(name: str) -> Any:
    """Return the object ``module:name``; any problem becomes a ``ConfigError``.

    >>> import_object("math:floor")(2.5)
    2
    """
    module, _, own = name.partition(":")
    found = getattr(import_user_module(module), own, None)
    if found is None:
        raise ConfigError(f"{name!r} must be module:name, and {module} has no {own!r}")
    return found


@contextmanager
def explain_failures(name: str) -> Iterator[None]:
    """Turn any exception of the environment ``name`` in this context into one sentence."""
    try:
        yield
    except (LLMGymError, BrokenPipeError):  # the reader of our output may close the pipe
        raise
    except (Exception, SystemExit) as error:  # other people's code
        hint = (
            "" if own_place(error) else f"; llm-gym check {name} says what an environment must do"
        )
        raise LLMGymError(f"{name} failed: {describe_error(error)}{hint}") from error


def close_user_env(env: Any) -> None:
    """Close an environment; if that raises, only log the error."""
    try:
        env.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - other people's code
        _log.warning("an environment raised %s at its end", describe_error(error))


def describe_error(error: BaseException) -> str:
    """Return type, message, file and line of an exception.

    >>> try:
    ...     int("many")
    ... except ValueError as error:
    ...     print(describe_error(error).partition(" (")[0])
    ValueError: invalid literal for int() with base 10: 'many'
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({_short(error.filename)}, line {error.lineno})"
    what = error_words(error).partition(CREATOR)[0]
    if (at := own_place(error)) is None:
        return what
    code, line = at
    return f"{what} ({_short(code.co_filename)}, line {line}, in {code.co_name})"


def own_place(error: BaseException) -> tuple[CodeType, int] | None:
    """Return the last line in the author's own code, not in a library that it called."""
    others = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _AROUND
    ]
    own = [each for each in others if not each[0].co_filename.startswith(("<", *_LIBRARIES))]
    return next(reversed(own or others), None)


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file

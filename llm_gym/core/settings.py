"""Check constructor arguments against their type hints before anything is built.

Without these checks, ``max_turns=2.5`` would make an endless game, ``strict="no"`` a strict game,
and ``size="4"`` would fail later with an error about ``<=``. NumPy numbers become Python numbers.
"""

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, wraps
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from llm_gym.core.errors import ConfigError, SettingError
from llm_gym.core.text import no_setting, wrong_setting
from llm_gym.reading.formats import FORMATS, ActionFormat

_TYPES: dict[Any, tuple[str, Any]] = {
    int: ("a whole number", Integral), float: ("a number", Real), str: ("a text", str),
    bool: ("True or False", (bool, np.bool_)), type(None): ("None", type(None)),
    Callable: ("a function", object), Sequence: ("a list", object),
}  # fmt: skip
"""What each type is called, and the classes of its values; ``object`` is not checked."""
_UNIONS = (Union, types.UnionType)


class _Setting(NamedTuple):
    default: Any
    least: float | None
    most: float | None
    levels: tuple[float, float] | None

    def at(self, difficulty: float) -> float:
        assert self.levels is not None, "asked only of settings with levels"
        easy, hard = self.levels
        value = easy + (hard - easy) * difficulty
        return value if isinstance(self.default, float) else round(value)


def setting(
    default: Any,
    least: float | None = None,
    most: float | None = None,
    *,
    levels: tuple[float, float] | None = None,
) -> Any:
    """Declare a setting of an environment in its class, instead of in a constructor.

    ``size: int = setting(5, 2, 15)`` makes ``size`` an argument of the constructor with the default
    5 and an attribute. A value that is neither None nor from 2 to 15 is an error.
    ``levels=(3, 9)`` makes it 3 at difficulty 0, 9 at difficulty 1, and in proportion between them.
    """
    return _Setting(default, least, most, levels)


class TypedSettings:
    """Base class that checks constructor arguments of subclasses against their type hints."""

    _declared_settings: Mapping[str, _Setting] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: one for name, one in vars(cls).items() if isinstance(one, _Setting)}
        if own:
            cls._declared_settings = {**cls._declared_settings, **own}
        for name, one in own.items():
            setattr(cls, name, one.default)
        if own or "__init__" in vars(cls):
            type.__setattr__(cls, "__init__", _constructor(cls, vars(cls).get("__init__")))

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Check the settings before the constructor runs."""
        check_types(cls, named_settings(cls, args) | settings)
        made = super().__new__(cls)
        for name, one in cls._declared_settings.items():  # ``vars`` would slow all attributes down
            setattr(made, name, one.default)
        return made


def get_format(name: str) -> ActionFormat:
    """Return the format called ``name``."""
    if not isinstance(name, str) or name not in FORMATS:
        raise ConfigError(f"action_format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def check_range(
    name: str, value: Any, least: float, most: float | None = None, why: str = ""
) -> None:
    """Raise ``ConfigError`` unless ``value`` is from ``least`` to ``most``; None is always fine.

    >>> check_range("size", 9, 2, 6)
    Traceback (most recent call last):
    llm_gym.core.errors.ConfigError: size must be from 2 to 6, got 9
    """
    if value is None or (least <= value < math.inf and (most is None or value <= most)):
        return
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"
    raise ConfigError(f"{name} must be {wanted}{why and f', {why}'}, got {value}")


def plain(value: Any) -> Any:
    """Return ``value``; a NumPy number becomes a Python number.

    >>> plain(np.int64(3)), plain(np.float32(0.5)), plain("3"), plain(True)
    (3, 0.5, '3', True)
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _constructor(cls: Any, written: Callable[..., None] | None) -> Callable[..., None]:
    """Return a constructor that takes the declared settings and calls the one in the class.

    Without one there, it calls that of the base class, and its signature names the settings.
    """

    def __init__(self: Any, *args: Any, **common: Any) -> None:
        given = {name: plain(value) for name, value in common.items()}
        for name in self._declared_settings.keys() & given.keys():
            setattr(self, name, given.pop(name))
        make = super(cls, self).__init__ if written is None else partial(written, self)
        try:
            make(*map(plain, args), **given)
        except TypeError as error:
            wrong, known = wrong_setting(error), setting_names(type(self))
            if wrong not in common.keys() - known or isinstance(error, SettingError):
                raise
            raise SettingError(f"{type(self).__name__} {no_setting(wrong, known)}") from error

    if written is not None:
        return wraps(written)(__init__)
    me, _, common = inspect.signature(__init__).parameters.values()
    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default)
        for name, one in cls._declared_settings.items()
    ]
    __init__.__signature__ = inspect.Signature([me, *own, common])  # type: ignore[attr-defined]
    return __init__


def setting_names(made: Any) -> set[str]:
    """Return the arguments that a class and its bases name in their constructors."""
    names: set[str] = set()
    for each in made.__mro__ if isinstance(made, type) else ():
        if "__init__" in vars(each):
            taken = inspect.signature(vars(each)["__init__"]).parameters.values()
            names |= {one.name for one in taken if one.kind not in _ANY}
    return names - {"self"}


_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def named_settings(cls: type, args: tuple[Any, ...]) -> dict[str, Any]:
    """Return positional arguments by name."""
    if not args:
        return {}
    names = list(inspect.signature(cls).parameters)
    return dict(zip(names, args, strict=False))


def check_types(cls: type, given: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a setting that does not fit its type hint in ``cls``.

    >>> class Game:
    ...     def __init__(self, size: int = 3, *, slip: float | None = None) -> None: ...
    >>> check_types(Game, {"size": 4, "slip": 1})
    >>> check_types(Game, {"size": 2.5})
    Traceback (most recent call last):
    llm_gym.core.errors.ConfigError: size must be a whole number, got 2.5
    """
    kinds = _kinds(cls)
    for name, value in given.items():
        if name in kinds:
            check_type(name, value, kinds[name])


def check_type(name: str, value: Any, kind: Any) -> None:
    """Raise ``ConfigError`` for a ``value`` that does not fit the type hint ``kind``."""
    if not _is(value, kind):
        raise ConfigError(f"{name} must be {_describe(kind)}, got {value!r:.200}")


@lru_cache(maxsize=256)
def _kinds(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    declared = getattr(cls, "_declared_settings", {})
    for each in reversed(cls.__mro__):
        try:
            if isinstance(make := vars(each).get("__init__"), types.FunctionType):
                found |= get_type_hints(make)
            if declared.keys() & vars(each).keys():
                found |= inspect.get_annotations(each, eval_str=True)
        except Exception:  # noqa: BLE001 - a name of the author's that is not there at run time
            continue
    return {name: kind for name, kind in found.items() if name != "return"}


def _is(value: Any, kind: Any) -> bool:
    origin, options = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        return any(_is(value, option) for option in options)
    if origin is Literal:
        return any(value is one or (type(value) is type(one) and value == one) for one in options)
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_is(one, options[0]) for one in value)
    if origin is Callable:
        return callable(value)
    if kind in (int, float) and isinstance(value, bool):
        return False
    _, classes = _TYPES.get(kind, ("", object))  # the owner checks any other type
    return isinstance(value, classes)


def _describe(kind: Any) -> str:
    words = []
    for option in get_args(kind) if get_origin(kind) in _UNIONS else (kind,):
        if get_origin(option) is Literal:
            words += [repr(one) for one in get_args(option)]
        else:
            words.append(_TYPES.get(get_origin(option) or option, (str(option),))[0])
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"

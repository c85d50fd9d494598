"""Estimators and policy losses by name, with the inputs that each of them needs.

``config.training.adv_estimator = "grpo"`` becomes ``get_advantage("grpo")``. The result tells the
trainer what to collect (values, groups, states) and which settings to pass. A setting that an
estimator does not have is an error and is never silently dropped. ``module:function`` names your
own function, registered or not.

Shapes: T sampled tokens of all episodes.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.text import did_you_mean
from llm_gym.registry.user_code import describe_error, import_object
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import StreamError


class Advantages(NamedTuple):
    """The result of an estimator, per token of its stream."""

    advantages_T: Tensor
    returns_T: Tensor
    """The target of the critic; for an estimator without a critic, the return."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A registered function: its name and the settings it takes."""

    name: str
    function: Callable[..., Any]
    settings: Mapping[str, Any] = field(init=False)
    """The keyword settings of the function and their defaults."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"{self.name!r} must be a function, got {self.function!r:.60}")
        parameters = inspect.signature(self.function).parameters.values()
        missing = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if missing or any(p.kind is p.VAR_KEYWORD for p in parameters):
            raise ConfigError(
                f"every setting of {self.name!r} must be a named keyword with a default, "
                f"got {', '.join(missing) or '**kwargs'}"
            )
        settings = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        object.__setattr__(self, "settings", settings)

    def run(self, *args: Any, **settings: Any) -> Any:
        """Call the function. An exception of a user's ``module:function`` becomes one sentence."""
        try:
            return self.function(*args, **settings)
        except Exception as error:
            if ":" not in self.name or isinstance(error, LLMGymError | torch.OutOfMemoryError):
                raise
            raise StreamError(f"{self.name!r} raised {describe_error(error)}") from error

    def check_settings(self, given: Mapping[str, Any]) -> None:
        """Raise a ``ConfigError`` that names the first setting this function cannot take."""
        for name, value in given.items():
            if name not in self.settings:
                raise ConfigError(
                    f"{self.name!r} has no setting {name!r}{did_you_mean(name, self.settings)}; "
                    f"it takes {', '.join(self.settings) or 'none'}"
                )
            usual, choices = self.settings[name], _choices(self.function, name)
            if choices and value not in choices:
                raise ConfigError(
                    f"{name!r} of {self.name!r} must be one of {', '.join(choices)}, got {value!r}"
                )
            kinds = {type(value), type(usual)}
            if kinds <= {bool, str, int, float} and len(kinds) == 2 and kinds != {int, float}:
                raise ConfigError(
                    f"{name!r} of {self.name!r} must be like its default {usual!r}, got {value!r}"
                )


@dataclass(frozen=True, kw_only=True)
class AdvantageSpec(Spec):
    """A registered advantage estimator. Call it with a stream and its settings."""

    needs_critic: bool = False
    """Reads ``value_T``, and ``bootstrap_E`` of truncated episodes."""
    needs_groups: bool = False
    """Reads ``group_E``: several episodes must start from one prompt or seed."""
    needs_states: bool = False
    """Reads ``state_K``. With a setting ``branches``, that many are played from every state."""

    def __call__(self, stream: TokenStream, **settings: Any) -> Advantages:
        """The advantages of ``stream``; raises if it lacks an input of the estimator."""
        self.check_settings(settings)
        for needed, name, what in (
            (self.needs_critic, "value_T", "the critic's value before each token"),
            (self.needs_groups, "group_E", "one id per start, shared by its episodes"),
            (self.needs_states, "state_K", "one id per state, before each turn"),
        ):
            if needed and getattr(stream, name) is None:
                raise StreamError(
                    f"{self.name!r} needs {name} ({what}), got None; "
                    "pass it or choose another estimator"
                )
        made = self.run(stream, **settings)
        shape = stream.reward_T.shape
        if not isinstance(made, tuple) or [getattr(each, "shape", None) for each in made] != (
            [shape] * 2
        ):
            raise StreamError(
                f"{self.name!r} must return advantages and returns, each with a number for every "
                f"one of the {shape.numel()} sampled tokens; stream.on_tokens spreads one of each "
                "episode over its tokens"
            )
        return Advantages(*made)


SpecT = TypeVar("SpecT", bound=Spec)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Registry(Generic[SpecT]):
    """Specs by name, with an error that names the closest ones."""

    def __init__(self, kind: str, spec: type[SpecT]) -> None:
        self._kind, self._spec = kind, spec
        self._specs: dict[str, SpecT] = {}

    def register(self, name: str, **about: Any) -> Callable[[FunctionT], FunctionT]:
        """Return a decorator; a taken name is an error unless the same function is reloaded."""

        def add(function: FunctionT) -> FunctionT:
            spec, held = self._spec(name=name, function=function, **about), self._specs.get(name)
            if held is not None and _origin(held.function) != _origin(function):
                raise ConfigError(
                    f"the name of {self._kind} must be free, got {name!r}, which is "
                    f"{'.'.join(_origin(held.function))}; choose another name"
                )
            self._specs[name] = spec
            return function

        return add

    def get(self, name: str) -> SpecT:
        """The spec called ``name``; an unregistered ``module:function`` gets one without needs."""
        if name not in self._specs and ":" in name:
            function = import_object(name)
            own = [spec for spec in self._specs.values() if spec.function is function]
            return own[0] if own else self._spec(name=name, function=function)
        if name not in self._specs:
            raise ConfigError(
                f"{self._kind} must be one of {', '.join(self.names())}, "
                f"got {name!r}{did_you_mean(name, self._specs)}"
            )
        return self._specs[name]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._specs))


ADVANTAGES: Registry[AdvantageSpec] = Registry("an advantage estimator", AdvantageSpec)
"""Advantage estimators by name."""
get_advantage = ADVANTAGES.get
"""Returns the estimator registered under a name."""


def register_advantage(
    name: str, *, needs_critic: bool = False, needs_groups: bool = False, needs_states: bool = False
) -> Callable[[FunctionT], FunctionT]:
    """Register ``function(stream, *, setting=default, ...) -> Advantages`` under ``name``.

    >>> from llm_gym_agents.algo import Advantages, TokenStream, register_advantage
    >>> @register_advantage("score")
    ... def score(stream: TokenStream, *, scale: float = 1.0) -> Advantages:
    ...     scores_T = stream.on_tokens(stream.scores_E)
    ...     return Advantages(scale * scores_T, scores_T)
    >>> dict(get_advantage("score").settings)
    {'scale': 1.0}
    """
    return ADVANTAGES.register(
        name, needs_critic=needs_critic, needs_groups=needs_groups, needs_states=needs_states
    )


def _choices(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """Return the choices of an argument of type ``Literal``; empty for other types."""
    try:
        hint = get_type_hints(function).get(name)
    except (NameError, TypeError):  # somebody's function, with types that only a checker sees
        return ()
    return get_args(hint) if get_origin(hint) is Literal else ()


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__

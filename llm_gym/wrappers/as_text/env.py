"""Text environments from anything: ``ensure_text``, ``make_text``, and ``llm_gym/AsText-v0``."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import Info, Options
from llm_gym.core.legacy import as_gym
from llm_gym.registry.lookup import cannot_build, creator, find_spec
from llm_gym.registry.sources import EnvSource, build_env, env_source
from llm_gym.wrappers.as_text.settings import SuccessInfo
from llm_gym.wrappers.as_text.wrapper import SETTINGS, AsText


def speaks_text(env: gym.Env[Any, Any]) -> bool:
    """Return whether actions and observations of ``env`` are text already.

    >>> speaks_text(gym.make("CartPole-v1"))
    False
    """
    return _is_text(env.action_space) and _is_text(env.observation_space)


def _is_text(space: Space[Any]) -> bool:
    # A space from outside Gymnasium may be another package's string space.
    known = type(space).__module__.startswith("gymnasium.")
    return isinstance(space, spaces.Text) or not known


def ensure_text(env: Any, **settings: Any) -> gym.Env[str, str]:
    """Return ``env`` as it is if it speaks text, and in ``AsText`` if it does not.

    Args:
        env: An environment; one that ``as_gym`` adapts will do.
        **settings: Of ``AsText``. An environment that speaks text can honour none of them, so
            they are refused, but for ``success``, and ``rules``, which is no more than a wish
            then.

    >>> ensure_text(gym.make("CartPole-v1"))
    <AsText<TimeLimit<OrderEnforcing<PassiveEnvChecker<CartPoleEnv<CartPole-v1>>>>>>
    """
    made = as_gym(env)
    if not speaks_text(made):
        return AsText(made, **settings)
    if refused := settings.keys() - {"rules", "success"}:
        raise ConfigError(f"{made} is a text environment and takes no {', '.join(sorted(refused))}")
    success = settings.get("success")
    return made if success is None else SuccessInfo(made, success=success)


def make_text(env: EnvSource, **settings: Any) -> gym.Env[str, str]:
    """Return an environment of ``env``, in text.

    ``settings`` are the environment's own, or those of ``AsText``: see ``split_settings``.
    """
    source, own, words = _split(env, settings)
    return ensure_text(build_env(source, own), **words)


def text_source(
    env: EnvSource, settings: Mapping[str, Any]
) -> tuple[EnvSpec | Callable[..., Any], dict[str, Any]]:
    """Return a source of text environments and the arguments of ``make_vec`` for it.

    An environment that does not speak text is put into ``AsText``, innermost of all wrappers; the
    settings of ``AsText`` among ``settings`` go there.
    """
    source, own, words = _split(env, settings)
    speak = functools.partial(ensure_text, **words)
    return source, {**own, "wrappers": [speak, *own.get("wrappers", ())]}


def _split(
    env: EnvSource, settings: Mapping[str, Any]
) -> tuple[EnvSpec | Callable[..., Any], dict[str, Any], dict[str, Any]]:
    source = env_source(env)
    if isinstance(source, str):
        source = find_spec(source)
    return source, *split_settings(source, settings)


def split_settings(
    source: Any, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return which settings belong to the environment, and which to ``AsText`` around it.

    A setting that ``AsText`` has goes there, unless the environment is one of text, or what makes
    it takes an argument of that name. A class that takes some of them says so by
    ``takes_text_settings``: their names, or True for all.

    >>> split_settings("CartPole-v1", {"action_format": "tag", "sutton_barto_reward": True})
    ({'sutton_barto_reward': True}, {'action_format': 'tag'})
    """
    words: dict[str, Any] = {}
    if (taken := _arguments(source)) is not None:
        words = {n: settings[n] for n in settings if n in SETTINGS and n not in taken}
    own = {name: value for name, value in settings.items() if name not in words}
    return own, words


def _arguments(source: Any) -> Mapping[str, Any] | None:
    """Return the arguments of what makes the environment; None where it takes those of text."""
    if isinstance(source, str):
        source = find_spec(source)
    if isinstance(source, EnvSpec):
        source = creator(source)
    while isinstance(source, functools.partial):
        source = source.func
    is_class = isinstance(source, type)
    named: Any = is_class and getattr(source, "takes_text_settings", False)
    if named is True or (is_class and issubclass(source, TextEnv)):
        return None
    try:
        taken = dict(inspect.signature(source).parameters) if callable(source) else {}
    except (TypeError, ValueError):
        return {}
    if named:  # some of them, by name
        return {**taken, **dict.fromkeys(named)}
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())
    # A function that takes anything passes it on to it knows what; a class passes it to its base.
    return None if takes_all and not is_class else taken


class AsTextEnv(gym.Env[str, str]):
    """Any registered Gymnasium environment, played in text.

    Description:
        The environment ``env_id`` inside ``llm_gym.wrappers.AsText``, for places that take an id.

    Actions:
        Those of the environment, by name or in numbers; the rules say how.

    Observations:
        Those of the environment, in words.

    Rewards:
        The environment's own. An unusable text earns nothing, costs what the fallback that is
        played for it costs, and ``penalty``; ``AsText`` says what giving up costs.

    Episode end:
        The environment's own; ``AsText`` says what unusable texts do.

    Info:
        The environment's own, and the common keys where they are free: ``move``,
        ``valid_action``, ``success`` (where it can be known), ``stop_reason``, ``reward_terms``,
        ``turn``, ``invalid_actions``, ``fallback``.

    Args:
        env_id: A registered id, ``module:id`` to import the module first, or ``module:Class``.
        env_kwargs: Settings of that environment.
        render_mode: Given to that environment.
        **settings: See ``AsText``.
    """

    takes_text_settings = True
    metadata = {"render_modes": ["human", "rgb_array", "ansi"]}  # until there is one inside

    def __init__(
        self,
        *,
        env_id: str = "CartPole-v1",
        env_kwargs: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        own = dict(env_kwargs or {})
        if render_mode is not None:
            own["render_mode"] = render_mode
        try:
            made = gym.make(find_spec(env_id), **own)
        except (gym.error.Error, ImportError) as error:
            raise cannot_build(env_id, error) from error
        self.text = AsText(made, **settings)
        self.observation_space = self.text.observation_space
        self.action_space = self.text.action_space
        self.metadata, self.render_mode = made.metadata, made.render_mode

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        super().reset(seed=seed)
        return self.text.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        return self.text.step(action)

    def render(self) -> Any:
        return self.text.render()

    def close(self) -> None:
        self.text.close()

    def __getattr__(self, name: str) -> Any:
        # Players, legal actions and the attributes of the environment inside. A copy that is
        # being made has no ``text`` yet, and asks for names that begin with an underscore.
        if name.startswith("_") or name == "text":
            raise AttributeError(f"AsTextEnv has no attribute {name!r}")
        return self.text.get_wrapper_attr(name)

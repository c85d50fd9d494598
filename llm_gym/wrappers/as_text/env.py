"""Text environments from anything: ``ensure_text``, ``make_text``, and ``llm_gym/AsText-v0``."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium import spaces
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
    """Return whether actions and observations of ``env`` are text.

    >>> speaks_text(gym.make("CartPole-v1"))
    False
    """
    # A space from outside Gymnasium may be another package's string space.
    return all(
        isinstance(space, spaces.Text) or not type(space).__module__.startswith("gymnasium.")
        for space in (env.action_space, env.observation_space)
    )


def ensure_text(env: Any, **settings: Any) -> gym.Env[str, str]:
    """Return ``env`` unchanged if it is a text environment; otherwise wrap it in ``AsText``.

    Args:
        env: A Gymnasium environment or a ``BaseEnvironment``.
        **settings: Settings of ``AsText``. For a text environment, only ``success`` and ``rules``
            are accepted, and ``rules`` has no effect; any other setting is an error.

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
    """Build ``env`` as a text environment.

    ``settings`` may hold settings of the environment and of ``AsText``: see ``split_settings``.
    """
    source = env_source(env)
    own, words = split_settings(source, settings)
    return ensure_text(build_env(source, own), **words)


def split_settings(
    source: Any, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the environment, and the settings of ``AsText`` around it.

    A setting of ``AsText`` goes to ``AsText``, unless the environment is a text environment or its
    constructor has an argument of that name. A class that takes some of these settings itself lists
    their names in ``takes_text_settings`` (True for all).

    >>> split_settings("CartPole-v1", {"action_format": "tag", "sutton_barto_reward": True})
    ({'sutton_barto_reward': True}, {'action_format': 'tag'})
    """
    words: dict[str, Any] = {}
    if (taken := _arguments(source)) is not None:
        words = {n: settings[n] for n in settings if n in SETTINGS and n not in taken}
    own = {name: value for name, value in settings.items() if name not in words}
    return own, words


def _arguments(source: Any) -> Mapping[str, Any] | None:
    """Return the constructor arguments; None if the environment takes the text settings itself."""
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
        The environment's actions, by name or as numbers; the rules say how.

    Observations:
        The environment's observations, described in words.

    Rewards:
        The environment's rewards. For an unusable text a fallback move is played: its costs count,
        its rewards do not, and ``penalty`` is subtracted. ``AsText`` explains what giving up costs.

    Episode end:
        The environment's rules; ``AsText`` explains what unusable texts do.

    Info:
        The environment's keys, and these keys unless the environment uses them: ``move``,
        ``valid_action``, ``success`` (if known), ``stop_reason``, ``reward_terms``, ``turn``,
        ``invalid_actions``, ``fallback``.

    Args:
        env_id: A registered id, ``module:id`` to import the module first, or ``module:Class``.
        env_kwargs: Settings of this environment.
        render_mode: Passed to this environment.
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

"""``TextWrapper``: checks the settings of a wrapper and records them in the spec."""

from typing import Any, Self

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from llm_gym.core.settings import TypedSettings, named_settings, plain
from llm_gym.core.spaces import AnyText


class TextWrapper(TypedSettings, gym.Wrapper[Any, str, Any, Any], RecordConstructorArgs):
    """Base class of the wrappers."""

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Check the settings and record them without a copy, because they may be large."""
        made = super().__new__(cls, *args, **settings)
        given = {**named_settings(cls, args), **settings}
        given = {name: plain(value) for name, value in given.items() if name != "env"}
        RecordConstructorArgs.__init__(made, _disable_deepcopy=True, **given)
        return made


def longer_text(env: gym.Env[Any, Any], by: int) -> AnyText:
    """Return the space of the observations of ``env`` with up to ``by`` characters more."""
    return AnyText(getattr(env.observation_space, "max_length", 0) + by)

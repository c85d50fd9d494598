"""Any registered environment in text, by one id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from llm_gym.as_text import AsText
from llm_gym.registry.plugins import cannot_build, find_spec


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
        played for it costs, and ``penalty``.

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

    Version history:
        v0: First release.
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

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        return self.text.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Play the action that the move in ``action`` means."""
        return self.text.step(action)

    def render(self) -> Any:
        """Return what the environment renders."""
        return self.text.render()

    def close(self) -> None:
        """Close the environment."""
        self.text.close()

    def __getattr__(self, name: str) -> Any:
        # Players, legal actions and the attributes of the environment inside. A copy that is
        # being made has no ``text`` yet, and asks for names that begin with an underscore.
        if name.startswith("_") or name == "text":
            raise AttributeError(f"AsTextEnv has no attribute {name!r}")
        return self.text.get_wrapper_attr(name)

"""``built_in_player``: how ``llm-gym play`` and ``llm-gym export`` let a built-in player play."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError


def built_in_player(
    env: gym.Env[str, str], player: str, name: str, seed: int | None = None
) -> Callable[[], str]:
    """Return what chooses the actions of an episode with this seed in ``env``, called ``name``.

    Without ``random_action`` the random player says example moves of the action space. A missing
    player raises ``ConfigError`` at its first action.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> _ = env.reset(seed=3)
    >>> built_in_player(env, "oracle", "GuessTheNumber")()
    '2'
    """
    # With the game's own seed it would draw what the game drew.
    rng = np.random.default_rng(None if seed is None else (seed, 1))
    examples = getattr(env.action_space, "examples", ()) if player == "random" else ()

    def act() -> str:
        try:
            if not env.has_wrapper_attr(f"{player}_action"):
                raise NotImplementedError(f"its class defines no {player}_action()")
            action: str = env.get_wrapper_attr(f"{player}_action")()
        except NotImplementedError as error:
            if not examples:
                why = f": {error}" * bool(str(error))
                raise ConfigError(f"{name} has no {player} player{why}") from error
            action = examples[int(rng.integers(len(examples)))]
        return action

    return act

"""``make_vec``: many text environments as one vector environment.

The environments come from a registered id, an ``EnvSpec``, a factory or an environment.
``text_vector_env`` explains the vector environment that ``make_vec`` returns.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_type
from llm_gym.registry.sources import EnvSource, build_env, env_source
from llm_gym.vector.rows import TextualEnv
from llm_gym.vector.text_vector_env import TextVectorEnv

Wrap = Callable[[TextualEnv], TextualEnv]


def make_vec(
    id: EnvSource | Sequence[EnvSource],
    n: int | None = None,
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    workers: int = 0,
    timeout: float | None = None,
    wrappers: Sequence[Wrap] = (),
    **kwargs: Any,
) -> TextVectorEnv:
    """Return ``n`` text environments as one vector environment.

    Args:
        id: A registered id (``module:id`` imports the module first), an ``EnvSpec``, an environment
            class or another factory, an environment (rebuilt from its spec or copied), or a list
            with one of these for each row. A ``BaseEnvironment`` is adapted.
        n: Number of environments; by default the length of the list, or 1.
        autoreset_mode: What ``step`` does after the end of an episode, as in Gymnasium.
        workers: Processes to spread the environments over. 0 keeps them in this one, which is
            best unless a step takes much longer than sending its text to another process.
        timeout: Seconds that one environment may take in its worker; None waits for ever.
        wrappers: Applied to each environment, the first one innermost.
        **kwargs: Passed to ``gym.make`` or to the factory. If an environment has an argument with
            one of the names above (such as ``timeout``), use a factory.

    >>> envs = make_vec("llm_gym/GuessTheNumber-v0", 2, low=1, high=3)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminations, truncations, infos = envs.step(["2", "a cat"])
    >>> infos["valid_action"]
    array([ True, False])
    """
    check_type("n", n, int | None)
    listed = isinstance(id, Sequence) and not isinstance(id, str)
    given: Any = id if listed else [id]
    for one in given:
        if isinstance(one, str) and ":" not in one:
            gym.spec(one)  # refuses an unknown id in Gymnasium's words, as its ``make_vec`` does
    sources = list(map(env_source, given))
    spec = None
    if listed and n not in (None, len(sources)):
        raise ConfigError(f"n must be the length of the list, got n={n} for {len(sources)}")
    if not listed:
        noted = 1
        if isinstance(sources[0], EnvSpec):
            spec = sources[0] = copy.deepcopy(sources[0])
            # ``gym.make_vec`` and this function note the size in the spec that they leave behind.
            noted = spec.kwargs.pop("num_envs", 1)
        sources *= noted if n is None else n
    if not sources:
        raise ConfigError(f"n must be at least 1, got {n or 0}")
    envs = TextVectorEnv(
        [functools.partial(_make, source, tuple(wrappers), kwargs) for source in sources],
        autoreset_mode=autoreset_mode,
        workers=workers,
        timeout=timeout,
    )
    if spec is not None:
        envs.spec = copy.deepcopy(spec)
        envs.spec.kwargs.update(kwargs, num_envs=envs.num_envs)
    return envs


def _make(
    source: EnvSpec | Callable[..., Any], wrappers: Sequence[Wrap], kwargs: dict[str, Any]
) -> TextualEnv:
    env = build_env(source, kwargs)
    for wrap in wrappers:
        env = wrap(env)
    return env

"""Playing an episode and writing its record.

``play_episode`` is the plain loop. ``begin``, ``open_record``, ``add_turn`` and ``close_record``
are its parts. ``RecordEpisodes``, served models and the trainer's pool use the same functions, so
all records have the same content and can be replayed. ``begin`` runs in the environment's own
process, so one message returns the first observation and the facts about the episode.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, SupportsFloat

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ActionTypeError, ContractError
from llm_gym.core.infos import find_attribute, find_system_prompt
from llm_gym.core.legacy import BaseEnvironment, LegacyEnv, as_gym
from llm_gym.core.outcome import StopReason
from llm_gym.episodes.encoding import decode, encode
from llm_gym.episodes.record import Trajectory
from llm_gym.registry.user_code import own_place


class Beginning(NamedTuple):
    """The result of ``reset``, and the environment's facts about the episode."""

    observation: Any
    info: Mapping[str, Any]
    instance_id: str | None = None
    system_prompt: str = ""
    env: Mapping[str, Any] | None = None
    """From ``describe_env``, if each episode may have its own environment."""


def begin(
    env: gym.Env[Any, Any], seed: int | None = None, options: dict[str, Any] | None = None
) -> Beginning:
    """Reset ``env`` and return how the episode begins."""
    observation, info = play_reset(env, seed=seed, options=options)
    played = find_attribute(env, "episode_env")
    return Beginning(
        observation,
        info,
        _instance(env),
        find_system_prompt(env, info),
        played if isinstance(played, Mapping) else None,
    )


def describe_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return ``env_id`` and ``env_spec`` of an environment; they are the same in every episode.

    An argument that JSON cannot express is kept as its ``repr``. Such a record is readable, but its
    environment cannot be rebuilt.
    """
    if (spec := env.spec) is None:
        bare = env.unwrapped
        kind = type(bare.environment if isinstance(bare, LegacyEnv) else bare)
        return {"env_id": f"{kind.__module__}:{kind.__qualname__}"}
    try:
        described = json.loads(spec.to_json())
    except (TypeError, ValueError):
        given = {field.name: getattr(spec, field.name) for field in fields(spec) if field.init}
        wrappers = [vars(wrapper) for wrapper in spec.additional_wrappers]
        described = decode(encode({**given, "additional_wrappers": wrappers}))
    return {"env_id": spec.id, "env_spec": described}


def _instance(env: gym.Env[Any, Any]) -> str | None:
    name = find_attribute(env, "instance_id")
    try:
        name = name() if callable(name) else name
        return name if isinstance(name, str) else None
    except NotImplementedError:  # a game need not say what makes its instances differ
        return None


Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
"""What ``env.step`` returns."""


def play_reset(env: gym.Env[Any, Any], **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Return what ``env.reset`` returns if it has the right form; otherwise raise."""
    try:
        observation, info = env.reset(**arguments)
    except (TypeError, ValueError) as error:
        _refuse_form("reset must return 2 values", error)
        raise
    _check_form((observation, 0.0, False, False, info))
    return observation, info


def play_step(env: gym.Env[Any, Any], action: Any) -> Step:
    """Return what ``env.step`` returns if it has the right form; otherwise raise."""
    try:
        answer = env.step(action)
    except (TypeError, ValueError) as error:
        _refuse_form("step must return 5 values", error)
        raise
    return _check_form(answer)


def _refuse_form(rule: str, error: Exception) -> None:
    """Raise ``TypeError`` if a wrapper could not unpack what an environment returned."""
    if "unpack" in str(error) and own_place(error) is None:
        raise TypeError(f"{rule}: {error}") from error


def _check_form(answer: Any) -> Step:
    if not isinstance(answer, tuple) or len(answer) != 5:
        raise TypeError(f"step must return 5 values, got {answer!r:.100}")
    _, reward, terminated, truncated, info = answer
    if type(reward) is not float and not _is_number(reward):
        raise TypeError(f"the reward must be a number, got {reward!r:.100}")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if flag is not False and flag is not True and not _is_number(flag):
            raise TypeError(f"{name} must be True or False, got {flag!r:.100}")
    if not isinstance(info, dict):
        raise TypeError(f"info must be a dictionary, got {info!r:.100}")
    return answer


def _is_number(value: Any) -> bool:
    """Return whether ``value`` is a single number: not text, not an array of several."""
    is_text = isinstance(value, str | bytes)
    return not is_text and hasattr(value, "__float__") and not getattr(value, "ndim", 0)


def open_record(
    beginning: Beginning,
    env: Mapping[str, Any],
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Return the record of an episode that has just begun."""
    env = beginning.env or env
    observation = text_of(beginning.observation, env.get("env_id"))
    messages = [{"role": "user", "content": observation}]
    if beginning.system_prompt:
        messages.insert(0, {"role": "system", "content": beginning.system_prompt})
    return Trajectory(
        states=[observation],
        seed=seed,
        options=dict(options) if options else None,
        reset_info=dict(beginning.info),
        instance_id=beginning.instance_id,
        messages=messages,
        **env,
    )


MAX_REWARD = float(np.finfo(np.float32).max)
"""The largest float32."""


def invalid_env_output(observation: Any, reward: SupportsFloat = 0.0) -> str:
    """Return what is wrong with an environment's output, or "".

    One NaN reward would turn every weight into NaN at the next update.

    >>> invalid_env_output("You win.", 1), invalid_env_output("You win.", float("nan"))
    ('', 'gave a reward of nan, which must be a number that float32 holds')
    >>> invalid_env_output("You win.", 10**400)
    'gave a reward of inf, which must be a number that float32 holds'
    """
    if not isinstance(observation, str):
        return f"gave an observation of {type(observation).__name__}, which must be text"
    try:
        number = float(reward)
    except OverflowError:  # a huge int
        number = math.inf
    if abs(number) <= MAX_REWARD:  # false for NaN too
        return ""
    return f"gave a reward of {number:g}, which must be a number that float32 holds"


def add_turn(episode: Trajectory, action: str, step: Step) -> None:
    """Add a turn: the action, and what ``env.step`` returned for it.

    A turn that terminates does not count as truncated, even if a wrapper sets both.
    """
    observation, reward, terminated, truncated, info = step
    reward, info = float(reward), dict(info)  # before anything is added: these may raise
    terminated = bool(terminated)
    truncated = bool(truncated) and not terminated
    text = text_of(observation, episode.env_id)
    move = info.get("move")
    episode.states.append(text)
    episode.actions.append(action)
    episode.moves.append(move if isinstance(move, str) else None)
    episode.rewards.append(reward)
    episode.terminated.append(terminated)
    episode.truncated.append(truncated)
    episode.dones.append(terminated or truncated)
    episode.infos.append(info)
    episode.messages.append({"role": "assistant", "content": action})
    episode.messages.append({"role": "user", "content": text})


def add_failure(episode: Trajectory, action: str, what: str) -> None:
    """Add a turn whose environment failed: reward 0, truncated, the same observation again."""
    info = {"stop_reason": StopReason.ERROR, "error": what}
    add_turn(episode, action, (episode.states[-1], 0.0, False, True, info))


def cut_record(episode: Trajectory, reason: StopReason) -> None:
    """Truncate an episode between two turns."""
    episode.stop_reason = reason
    if episode.dones and not episode.dones[-1]:
        episode.dones[-1] = episode.truncated[-1] = True


def close_record(episode: Trajectory) -> Trajectory:
    """Return the complete record; a column without data from the environment is empty."""
    if not any(episode.moves):
        episode.moves = []  # the environment does not say how it understood an action
    return episode


def replace_system_prompt(episode: Trajectory, system_prompt: str | None) -> None:
    """Replace the system message of a record by ``system_prompt``; None keeps it."""
    if system_prompt is None:
        return
    rest = [message for message in episode.messages if message["role"] != "system"]
    first = [{"role": "system", "content": system_prompt}] if system_prompt else []
    episode.messages = [*first, *rest]


def system_prompt_of(episode: Trajectory) -> str:
    """Return the system prompt of a record; "" if there was none."""
    first = episode.messages[0] if episode.messages else {}
    return str(first["content"]) if first.get("role") == "system" else ""


def text_of(observation: object, env_id: str | None) -> str:
    """Return the observation, which must be text."""
    if not isinstance(observation, str):
        raise ContractError(
            f"episodes need text observations, {env_id} gave {type(observation).__name__}; "
            "put AsText around it"
        )
    return observation


def play_episode(
    env: gym.Env[str, str] | BaseEnvironment,
    policy: Callable[[str], str],
    seed: int | None = None,
    options: dict[str, Any] | None = None,
) -> Trajectory:
    """Play one episode and return its record.

    The loop has no limit of its own: put ``EpisodeLimits`` around an environment that may never
    end. Exceptions of the environment or the policy are not caught.

    Args:
        env: Any environment whose observations and actions are text.
        policy: Function from an observation to an action. It does not get ``system_prompt``.
        seed: Passed to ``reset``.
        options: Passed to ``reset``.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> episode = play_episode(env, lambda observation: env.unwrapped.solver_action(), seed=3)
    >>> episode.stop_reason, episode.total_reward
    (<StopReason.WON: 'won'>, 1.0)
    """
    env = as_gym(env)
    episode = open_record(begin(env, seed, options), describe_env(env), seed, options)
    while not (episode.dones and episode.dones[-1]):
        action = policy(episode.states[-1])
        if not isinstance(action, str):
            raise ActionTypeError(f"a policy returns a str, got {type(action).__name__}")
        add_turn(episode, action, play_step(env, action))
    return close_record(episode)

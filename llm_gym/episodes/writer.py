"""The one writer of an episode: whoever plays hands it the beginning, every turn, and the end.

``play_episode``, ``RecordEpisodes``, a served model and the trainer's pool all write through
these functions, so their records hold the same things and all of them can be played again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

from llm_gym.core.outcome import StopReason
from llm_gym.episodes.describe import Beginning
from llm_gym.episodes.record import Trajectory
from llm_gym.errors import ContractError

Step = tuple[Any, SupportsFloat, bool, bool, Mapping[str, Any]]
"""What ``env.step`` returns."""


def open_record(
    beginning: Beginning,
    env: Mapping[str, Any],
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Return the record of an episode that has just begun.

    Args:
        beginning: From ``begin``.
        env: From ``describe_env``.
        seed: That it was reset with.
        options: Those that it was reset with.
    """
    observation = _text(beginning.observation, env)
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


def add_turn(episode: Trajectory, action: str, step: Step) -> None:
    """Add a turn: the action, and what ``env.step`` returned for it.

    A step that ends the game is not cut as well, whatever a wrapper of somebody's says.
    """
    observation, reward, terminated, truncated, info = step
    terminated = bool(terminated)
    truncated = bool(truncated) and not terminated
    text = observation if isinstance(observation, str) else _text(observation, vars(episode))
    move = info.get("move")
    episode.states.append(text)
    episode.actions.append(action)
    episode.moves.append(move if isinstance(move, str) else None)
    episode.rewards.append(float(reward))
    episode.terminated.append(terminated)
    episode.truncated.append(truncated)
    episode.dones.append(terminated or truncated)
    episode.infos.append(dict(info))
    episode.messages.append({"role": "assistant", "content": action})
    episode.messages.append({"role": "user", "content": text})


def add_failure(episode: Trajectory, action: str, what: str) -> None:
    """Add a turn whose environment failed: no reward, cut, the same observation again."""
    info = {"stop_reason": StopReason.ERROR, "error": what}
    add_turn(episode, action, (episode.states[-1], 0.0, False, True, info))


def cut_record(episode: Trajectory, reason: StopReason) -> None:
    """End an episode from outside, between two turns."""
    episode.stop_reason = reason
    if episode.dones and not episode.dones[-1]:
        episode.dones[-1] = episode.truncated[-1] = True


def close_record(episode: Trajectory) -> Trajectory:
    """Return a complete record: a column that the environment says nothing about is empty."""
    if not any(episode.moves):
        episode.moves = []  # the environment does not say how it understood an action
    return episode


def address(episode: Trajectory, system_prompt: str | None) -> None:
    """Put what the model was told in the place of the environment's rules; None leaves them."""
    if system_prompt is None:
        return
    said = [{"role": "system", "content": system_prompt}] if system_prompt else []
    episode.messages = said + [each for each in episode.messages if each["role"] != "system"]


def system_prompt_of(episode: Trajectory) -> str:
    """Return what was told before the first observation; "" where nothing was."""
    first = episode.messages[0] if episode.messages else {}
    return str(first["content"]) if first.get("role") == "system" else ""


def _text(observation: object, env: Mapping[str, Any]) -> str:
    if not isinstance(observation, str):
        raise ContractError(
            f"episodes need text observations, {env.get('env_id')} gave "
            f"{type(observation).__name__}; put AsText around it"
        )
    return observation

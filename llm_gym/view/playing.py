"""Play on by hand: the environment of a record, restored by its moves, takes others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_gym.core.infos import flag, reward_terms
from llm_gym.episodes import Trajectory
from llm_gym.episodes.describe import begin
from llm_gym.episodes.replay import rebuild
from llm_gym.errors import RecordError
from llm_gym.registry.user_code import close_user_env

MAX_MOVES = 500
MAX_TEXT = 20_000


def play_on(episode: Trajectory, turn: int, moves: Sequence[str]) -> dict[str, Any]:
    """Play the first ``turn`` actions of ``episode`` and then ``moves``; return what follows.

    Nothing is kept between two calls: each begins again, so that any turn can be gone back to. Only
    environments that ``rebuild`` knows to be harmless are built.
    """
    if not 0 <= turn <= episode.num_turns:
        raise RecordError(f"turn must be from 0 to {episode.num_turns}, got {turn}")
    if len(moves) > MAX_MOVES or any(len(move) > MAX_TEXT for move in moves):
        raise RecordError(f"at most {MAX_MOVES} moves of {MAX_TEXT} characters can be played")
    if episode.seed is None:
        raise RecordError("the record has no seed, so nothing says which episode it is")
    env = rebuild(episode)
    try:
        state = begin(env, episode.seed, episode.options).observation
        done, note, turns = False, _note(state, episode, 0), []
        for at, action in enumerate([*episode.actions[:turn], *moves]):
            if done:
                break
            state, reward, terminated, truncated, info = env.step(action)
            done = bool(terminated or truncated)
            if at < turn:
                note = note or _note(state, episode, at + 1)
            else:
                turns.append(_told(action, state, float(reward), done, info))
        told = env.has_wrapper_attr("legal_actions") and not done
        legal = env.get_wrapper_attr("legal_actions")() if told else None
        legal = [str(move) for move in legal][:100] if legal else []
    finally:
        close_user_env(env)
    return {"state": state, "done": done, "note": note, "turns": turns, "legal": legal}


def _told(action: str, state: str, reward: float, done: bool, info: Any) -> dict[str, Any]:
    told = {"action": action, "state": state, "reward": reward, "done": done}
    ended = {"stop": str(info.get("stop_reason", "")), "success": bool(flag(info, "success"))}
    return {**told, "terms": reward_terms(info), **ended}


def _note(state: str, episode: Trajectory, at: int) -> str:
    if at >= len(episode.states) or state == episode.states[at]:
        return ""
    return f"the environment is not the recorded one: before turn {at} it says something else"

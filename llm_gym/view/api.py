"""The requests of the page, and their answers as JSON values.

``play_on`` continues a recorded episode with other moves.
"""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from llm_gym import __version__
from llm_gym.core.errors import RecordError
from llm_gym.core.infos import flag, reward_terms
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import begin
from llm_gym.episodes.replay import rebuild
from llm_gym.evaluate.scores import published
from llm_gym.registry.user_code import close_user_env
from llm_gym.view.sources import Summary, ViewSource

MAX_MOVES = 500
MAX_TEXT = 20_000


def play_on(episode: Trajectory, turn: int, moves: Sequence[str]) -> dict[str, Any]:
    """Play the first ``turn`` actions of ``episode`` and then ``moves``; return what follows.

    No state is kept between two calls, so the user can go back to any turn. Only environments that
    ``rebuild`` knows to be harmless are built.
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
                turns.append(_turn(action, state, float(reward), done, info))
        lists_moves = env.has_wrapper_attr("legal_actions") and not done
        legal = (env.get_wrapper_attr("legal_actions")() if lists_moves else None) or []
        legal = [str(move) for move in legal][:100]
    finally:
        close_user_env(env)
    return {"state": state, "done": done, "note": note, "turns": turns, "legal": legal}


def _turn(action: str, state: str, reward: float, done: bool, info: Any) -> dict[str, Any]:
    return {
        "action": action,
        "state": state,
        "reward": reward,
        "done": done,
        "terms": reward_terms(info),
        "stop": str(info.get("stop_reason", "")),
        "success": bool(flag(info, "success")),
    }


def _note(state: str, episode: Trajectory, at: int) -> str:
    if at >= len(episode.states) or state == episode.states[at]:
        return ""
    return f"the environment is not the recorded one: before turn {at} it says something else"


MAX_WORDS = 1_000
Query = Mapping[str, str]
Item = TypeVar("Item")


class Api:
    """Answers requests about ``sources``, one at a time, because reading changes their state."""

    def __init__(self, sources: Sequence[ViewSource]) -> None:
        self.sources = sources
        self._lock = threading.Lock()
        self._play = threading.Lock()
        self.answers = {
            "sources": self.about,
            "metrics": self.metrics,
            "episodes": self.episodes,
            "search": self.search,
            "suite": self.suite,
        }

    def ask(self, name: str, query: Query) -> Any:
        with self._lock:
            return self.answers[name](query)

    def episode(self, query: Query) -> bytes:
        with self._lock:
            file = _pick(self._source(query).files, query, "file")
            raw = file.raw(_number(query, "line"))
        return dump(json.loads(raw)) if b"NaN" in raw or b"Infinity" in raw else raw

    def play(self, request: Any) -> dict[str, Any]:
        if not isinstance(request, dict):
            raise RecordError("a request to play must be an object")
        moves, turn = request.get("moves"), request.get("turn")
        texts = isinstance(moves, list) and all(isinstance(move, str) for move in moves)
        if not texts or not isinstance(turn, int):
            raise RecordError("moves must be a list of strings and turn a whole number")
        query = {name: str(request.get(name)) for name in ("source", "file", "line")}
        episode = Trajectory.from_json(self.episode(query).decode())
        with self._play:  # one at a time: an environment may be heavy
            return play_on(episode, turn, moves or [])

    def about(self, query: Query) -> dict[str, Any]:
        for source in self.sources:
            source.warm_start.refresh()
        return {
            "version": __version__,
            "sources": [
                {
                    "name": source.name,
                    "config": source.config(),
                    "warm_start": source.warm_start.rows,
                    "is_run": source.metrics.path.exists() or bool(source.config()),
                }
                for source in self.sources
            ],
        }

    def metrics(self, query: Query) -> dict[str, Any]:
        """Return the rows after the first ``from``; all where old ones have changed."""
        metrics = self._source(query).metrics
        metrics.refresh()
        first = _number(query, "from")
        if _number(query, "generation") != metrics.generation:
            first = 0
        return {"generation": metrics.generation, "from": first, "rows": metrics.rows[first:]}

    def episodes(self, query: Query) -> dict[str, Any]:
        """Return a row per episode; none where ``version`` is the present one."""
        source = self._source(query)
        source.refresh()
        answer: dict[str, Any] = {"version": source.version}
        if _number(query, "version") == source.version:
            return answer
        files = [
            {
                "name": file.label,
                "iteration": file.iteration,
                "problems": file.problems,
                "rows": [list(row) for row in file.rows],
            }
            for file in source.files
        ]
        return answer | {"columns": list(Summary._fields), "files": files}

    def search(self, query: Query) -> list[list[int]]:
        """Return [source, file, line] of every episode that contains the words."""
        words = query.get("words", "")[:MAX_WORDS]
        return [
            [at, number, line]
            for at, source in enumerate(self.sources)
            for number, file in enumerate(source.files)
            for line in file.search(words)
        ]

    def suite(self, query: Query) -> dict[str, dict[str, list[float]]]:
        """Return the published scores: id, player, [success, low, high, episodes]."""
        return {
            env: {
                player: [score.success, score.low, score.high, score.episodes]
                for player, score in row.items()
            }
            for env, row in published().items()
        }

    def _source(self, query: Query) -> ViewSource:
        return _pick(self.sources, query, "source")


def dump(answer: Any) -> bytes:
    """Return an answer as JSON in ASCII, safe inside a script element as well."""
    try:
        text = json.dumps(answer, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:  # NaN or an infinity, which no browser reads
        text = json.dumps(_finite(answer), separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").encode("ascii")


def _finite(value: Any) -> Any:
    """Return a JSON value with null for every number that is none.

    >>> _finite({"a": [1.5, float("nan")], "b": float("inf")})
    {'a': [1.5, None], 'b': None}
    """
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pick(items: Sequence[Item], query: Query, name: str) -> Item:
    number = _number(query, name)
    if not 0 <= number < len(items):
        raise RecordError(f"there is no {name} {number}")
    return items[number]


def _number(query: Query, name: str) -> int:
    text = query.get(name, "-1")
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise RecordError(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)

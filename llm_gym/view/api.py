"""The questions that the page asks, and their answers as JSON values."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from llm_gym import __version__
from llm_gym.episodes import Trajectory
from llm_gym.errors import RecordError
from llm_gym.evaluate.scores import published
from llm_gym.view.index import EpisodeIndex, Summary
from llm_gym.view.playing import play_on
from llm_gym.view.sources import Source
from llm_gym.view.testcase import as_test

MAX_WORDS = 1_000
Query = Mapping[str, str]


class Api:
    """Answers about ``sources``; one question at a time, since reading moves their state."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self._lock = threading.Lock()
        self._play = threading.Lock()
        self.answers = {
            "sources": self.about,
            "metrics": self.metrics,
            "episodes": self.episodes,
            "search": self.search,
            "suite": self.suite,
            "test": self.test,
        }

    def ask(self, name: str, query: Query) -> Any:
        """Return the answer to the question ``name``."""
        with self._lock:
            return self.answers[name](query)

    def episode(self, query: Query) -> bytes:
        """Return a record as it stands in its file."""
        with self._lock:
            raw = self._file(query).raw(_number(query, "line"))
        return dump(json.loads(raw)) if b"NaN" in raw or b"Infinity" in raw else raw

    def play(self, request: Any) -> dict[str, Any]:
        """Play on from a turn of a record."""
        if not isinstance(request, dict):
            raise RecordError("a request to play must be an object")
        moves, turn = request.get("moves"), request.get("turn")
        texts = isinstance(moves, list) and all(isinstance(move, str) for move in moves)
        if not texts or not isinstance(turn, int):
            raise RecordError("moves must be a list of strings and turn a whole number")
        query = {name: str(request.get(name)) for name in ("source", "file", "line")}
        episode = Trajectory.from_json(self.episode(query).decode())
        with self._play:  # an environment may be heavy, and nobody plays two at once
            return play_on(episode, turn, moves or [])

    def about(self, query: Query) -> dict[str, Any]:
        """Return what there is to see."""
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
                "name": source.label(file),
                "iteration": source.iteration(file),
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

    def test(self, query: Query) -> dict[str, str]:
        """Return an episode as the source of a test."""
        line = self._file(query).raw(_number(query, "line"))
        return {"source": as_test(Trajectory.from_json(line.decode()))}

    def _source(self, query: Query) -> Source:
        number = _number(query, "source")
        if not 0 <= number < len(self.sources):
            raise RecordError(f"there is no source {number}")
        return self.sources[number]

    def _file(self, query: Query) -> EpisodeIndex:
        files, number = self._source(query).files, _number(query, "file")
        if not 0 <= number < len(files):
            raise RecordError(f"there is no file {number}")
        return files[number]


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


def _number(query: Query, name: str) -> int:
    text = query.get(name, "-1")
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise RecordError(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)

"""What is written is read back: records of every shape, and values that JSON cannot hold."""

import enum
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import llm_gym  # noqa: F401 - registers the environments
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Opaque, Tokens, Trajectory
from llm_gym.episodes.record import DERIVED, FIELDS
from llm_gym.errors import RecordError
from tests.episodes.small import reread, small_episode

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
texts = st.text(alphabet=st.characters(), max_size=8).filter(lambda text: not _PAIR.search(text))
numbers = st.floats(allow_nan=False)
leaves = st.none() | st.booleans() | st.integers() | numbers | texts
keys = texts | st.integers() | st.sampled_from(["$repr", "$dict", "$", "$float"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
objects: st.SearchStrategy[Any] = st.dictionaries(keys, values, max_size=3)


@st.composite
def tokens(draw: st.DrawFn, turns: int) -> Tokens:
    n = draw(st.integers(0, 4))
    floats = st.none() | st.lists(numbers, min_size=n, max_size=n)
    wholes = st.lists(st.integers(0, 2**63), min_size=n, max_size=n)
    index = st.lists(st.integers(0, turns), min_size=n, max_size=n).map(sorted)
    return Tokens(
        ids=draw(wholes),
        log_probs=draw(floats),
        values=draw(floats),
        advantages=draw(floats),
        ratios=draw(floats),
        entropies=draw(floats),
        trained_on=draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)),
        weights_versions=draw(st.none() | wholes),
        turns=draw(st.none() | index),
        texts=draw(st.none() | st.lists(st.text(max_size=3), min_size=n, max_size=n)),
    )


@st.composite
def episodes(draw: st.DrawFn) -> Trajectory:
    n = draw(st.integers(0, 3))

    def column(item: st.SearchStrategy[Any], extra: int = 0) -> Any:
        return draw(st.lists(item, min_size=n + extra, max_size=n + extra))

    terminated, truncated = column(st.booleans()), column(st.booleans())
    recorded = draw(st.booleans())
    names = st.none() | texts | st.integers()
    message = st.fixed_dictionaries({"role": texts, "content": st.none() | texts, "call": values})
    return Trajectory(
        states=column(texts, draw(st.integers(0, 1))),
        actions=column(texts),
        rewards=column(numbers),
        dones=[a or b for a, b in zip(terminated, truncated, strict=True)],
        infos=column(objects),
        moves=column(st.none() | texts) if recorded else [],
        terminated=terminated if recorded else [],
        truncated=truncated if recorded else [],
        messages=draw(st.lists(message, max_size=2)),
        tokens=draw(st.none() | tokens(n)),
        episode_id=draw(names),
        group=draw(names),
        seed=draw(st.none() | st.integers()),
        options=draw(st.none() | objects),
        env_id=draw(st.none() | texts),
        env_spec=draw(st.none() | objects),
        instance_id=draw(st.none() | texts),
        policy=draw(st.none() | texts),
        weights_version=draw(st.none() | st.integers()),
        reset_info=draw(st.none() | objects),
        extra=draw(st.none() | objects),
    )


@given(episodes())
def test_what_is_written_is_read_back_exactly(episode: Trajectory) -> None:
    again = reread(episode)
    assert again == episode
    assert again.to_json() == episode.to_json()


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_record_or_a_record_error(line: str) -> None:
    with pytest.raises(RecordError):
        Trajectory.from_json(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*FIELDS, *DERIVED]), json_values)
def test_any_json_in_any_field_is_a_record_or_a_record_error(name: str, value: Any) -> None:
    data = json.loads(small_episode().to_json()) | {name: value}
    try:
        episode = Trajectory.from_json(json.dumps(data))
    except RecordError:
        return
    assert reread(episode).to_json() == episode.to_json()


def test_nan_and_infinities_in_token_arrays_are_kept() -> None:
    episode = Trajectory(tokens=Tokens(ids=[1, 2, 3], log_probs=[math.nan, math.inf, -math.inf]))
    written = json.loads(episode.to_json())
    assert written["tokens"]["log_probs"] == [None, "Infinity", "-Infinity"]
    again = reread(episode).tokens
    assert again is not None
    assert again.log_probs is not None
    assert math.isnan(again.log_probs[0])
    assert again.log_probs[1:] == [math.inf, -math.inf]


def test_a_nan_reward_is_kept_for_the_inquest() -> None:
    episode = Trajectory(actions=["x"], rewards=[math.nan])
    again = reread(episode)
    assert math.isnan(again.rewards[0])
    assert math.isnan(again.total_reward)


def test_arrays_are_taken_as_lists_without_losing_a_bit() -> None:
    log_probs = np.array([-0.1, -2.5, 1e-30], dtype=np.float32)
    episode = Trajectory(
        tokens=Tokens(
            ids=np.array([5, 6, 7]),  # type: ignore[arg-type]
            log_probs=log_probs,  # type: ignore[arg-type]
            trained_on=np.array([0, 1, 1]),  # type: ignore[arg-type]
        )
    )
    again = reread(episode).tokens
    assert again == Tokens([5, 6, 7], log_probs.tolist(), trained_on=[False, True, True])
    assert (np.array(again.log_probs, dtype=np.float32) == log_probs).all()


def test_stop_reasons_in_infos_come_back_as_the_enum() -> None:
    again = reread(small_episode())
    assert again.infos[1]["stop_reason"] is StopReason.WON


def test_numpy_values_in_infos_become_plain_ones() -> None:
    info = {
        "scalar": np.float32(0.5),
        "flag": np.bool_(True),
        "count": np.int64(7),
        "board": np.zeros((2, 2), dtype=int),
        "mixed": (np.array([np.nan]), {"deep": np.uint8(3)}),
    }
    again = reread(Trajectory(actions=["x"], infos=[info])).infos[0]
    assert again["scalar"] == 0.5
    assert again["flag"] is True
    assert again["count"] == 7
    assert again["board"] == [[0, 0], [0, 0]]
    assert math.isnan(again["mixed"][0][0])
    assert again["mixed"][1] == {"deep": 3}


class Colour(enum.Enum):
    RED = 1


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no comment")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attributes either")


def test_a_value_that_json_cannot_hold_costs_its_detail_and_not_the_episode() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    info = {
        "colour": Colour.RED,
        "rude": Rude(),
        "bytes": b"\xff",
        "huge": 10**5000,
        "circle": circle,
        "deep": deep,
        "set": {3, 1, 2},
        "cells": {(0, 1): "wall"},
        "stop_reason": ["not", "hashable"],
        "success": np.array([1, 2]),
    }
    episode = Trajectory(actions=["x"], dones=[True], infos=[info])
    again = reread(episode).infos[0]
    assert again["colour"] == Opaque("<Colour.RED: 1>")
    assert again["rude"] == Opaque("<Rude without a repr>")
    assert again["bytes"] == Opaque(r"b'\xff'")
    assert again["huge"].text.startswith("0x")
    assert len(again["huge"].text) == 1000
    assert again["set"] == [1, 2, 3]
    assert again["cells"] == {(0, 1): "wall"}
    assert reread(episode).stop_reason is StopReason.FINISHED
    assert reread(episode).to_json() == reread(reread(episode)).to_json()


def test_lone_surrogates_survive() -> None:
    episode = Trajectory(states=["\ud800", "\udc00 x"], actions=["\udfff\ud800"])
    assert reread(episode) == episode

"""The episode record: what it holds, and that writing and reading lose nothing."""

import ast
import enum
import inspect
import json
import math
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import RecordError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import SCHEMA, Opaque, Tokens, Trajectory
from llm_gym.episodes.record import DERIVED, FIELDS, TOKEN_FIELDS
from tests.episodes.small import reread, small_episode

DOCS = Path(__file__).parents[2] / "docs" / "evaluate.md"


def test_an_empty_trajectory_can_be_made_and_filled_as_in_the_examples() -> None:
    trajectory = Trajectory()
    trajectory.states = ["state1", "state2"]
    trajectory.actions = ["action1", "action2"]
    trajectory.rewards = [1.0, 0.5]
    trajectory.dones = [False, True]
    assert trajectory.total_reward == 1.5
    assert trajectory.num_turns == 2
    assert trajectory.final_state is None, "with as many states as actions the last was not kept"
    assert reread(trajectory) == trajectory
    assert trajectory != "episode"
    assert Trajectory().actions == [], "lists are not shared"


def test_an_empty_record_has_defaults_and_refuses_an_unknown_stop_reason() -> None:
    empty = reread(Trajectory())
    assert empty.stop_reason is StopReason.PLAYING
    assert (empty.success, empty.total_reward, empty.num_turns) == (False, 0.0, 0)
    with pytest.raises(ValueError, match="bored"):
        Trajectory().stop_reason = "bored"


def test_stop_reason_and_success_follow_from_the_last_turn() -> None:
    episode = reread(small_episode())
    assert (episode.stop_reason, episode.success) == (StopReason.WON, True)
    assert episode.infos[1]["stop_reason"] is StopReason.WON
    assert episode.final_state == "c"
    episode.infos = []
    assert (episode.stop_reason, episode.success) == (StopReason.FINISHED, False)
    episode.terminated, episode.truncated = [False, False], [False, True]
    assert episode.stop_reason is StopReason.MAX_STEPS


def test_an_assigned_stop_reason_is_kept_even_without_a_turn() -> None:
    episode = Trajectory(states=["a prompt that does not fit"])
    episode.stop_reason = "context"
    episode.success = True
    again = reread(episode)
    assert again.stop_reason is StopReason.CONTEXT
    assert again.success is True
    assert again == episode
    assert again != Trajectory(states=["a prompt that does not fit"])


def record(**changes: Any) -> str:
    return json.dumps(json.loads(small_episode().to_json()) | changes)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "the record is not JSON: Expecting value at character 1"),
        ("[1]", "this is JSON but no episode record: it has no schema"),
        ('{"actions": []}', "this is JSON but no episode record: it has no schema"),
        (record(schema=SCHEMA + 1), "schema 2"),
        (record(schema="1"), "schema"),
        (record(schema=True), "schema"),
        (record(schema=0), "schema"),
        (record(actions="xy"), "actions"),
        (record(rewards=[0.0, "ten"]), "rewards[1]"),
        (record(dones=[0, 2]), "dones[1]"),
        (record(infos=[{}, 3]), "infos[1]"),
        (record(infos=[{}, {"a": {"$new": 1}}]), "an object with $new cannot be read"),
        (record(seed=1.5), "seed"),
        (record(messages=[{"role": "user"}]), "messages[0]"),
        (record(reward=[1]), "reward"),
        (record(stop_reason="bored"), "stop_reason"),
        (record(stop_reason=[]), "stop_reason"),
        (record(success="yes"), "success"),
        (record(states=["a"]), "states"),
        (record(rewards=[1.0]), "rewards"),
        (record(terminated=[False, True]), "terminated and truncated must be recorded both"),
        (record(terminated=[True, True], truncated=[False, False]), "dones"),
        (record(tokens=[1]), "tokens"),
        (record(tokens={"ids": [1], "values": []}), "tokens.values"),
        (record(tokens={"ids": [1, 2], "turns": [1, 0]}), "tokens.turns"),
        (record(tokens={"ids": [1], "turns": [3]}), "tokens.turns"),
        (record(tokens={"id": [1]}), "tokens.id"),
        ("[" * 100_000, "the record is not JSON"),
        ('{"schema": 1, "seed": ' + "9" * 5000 + "}", "the record is not JSON"),
    ],
)
def test_a_bad_record_is_refused_with_the_reason(line: str, sentence: str) -> None:
    with pytest.raises(RecordError, match=re.escape(sentence)):
        Trajectory.from_json(line)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rewards": [1.0]}, "rewards"),
        ({"rewards": None}, "rewards"),
        ({"rewards": ["1", "2"]}, "rewards[0]"),
        ({"actions": "xy"}, "actions"),
        ({"states": ["a", 2, "c"]}, "states[1]"),
        ({"infos": [None, {}]}, "infos[0]"),
        ({"tokens": {"ids": [1]}}, "tokens"),
        ({"tokens": Tokens([1], turns=[3])}, "tokens.turns"),
        ({"tokens": Tokens([1], values=[1.0, 2.0])}, "tokens.values"),
        ({"seed": 10**5000}, "the record cannot be written as JSON"),
    ],
)
def test_an_inconsistent_trajectory_is_not_written(changes: dict[str, Any], sentence: str) -> None:
    episode = small_episode()
    vars(episode).update(changes)
    with pytest.raises(RecordError, match=re.escape(sentence)):
        episode.to_json()


def documented(kind: type) -> list[str]:
    """Return the fields of a class that have a docstring."""
    body = ast.parse(inspect.getsource(kind)).body[0].body  # type: ignore[attr-defined]
    return [
        field.target.id
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    ]


def test_every_field_and_token_array_has_a_docstring() -> None:
    public = [field.name for field in fields(Trajectory) if not field.name.startswith("_")]
    assert documented(Trajectory) == public == list(FIELDS)
    assert documented(Tokens) == list(Tokens().to_dict()) == list(TOKEN_FIELDS)
    assert documented(Tokens) == [field.name for field in fields(Tokens)]


def test_the_page_names_exactly_the_fields_token_arrays_and_stop_reasons() -> None:
    section = DOCS.read_text().split("\n## The record\n")[1].split("\n## ")[0]
    table, arrays = section.split("A list that was not recorded")
    written = {*json.loads(Trajectory().to_json()), "total_reward"}
    named = re.findall(r"`(\w+)`", table.partition("| --- |")[2])
    assert set(named) == written | set(StopReason)
    assert set(FIELDS) | {"schema", *DERIVED, "total_reward"} == written
    assert set(re.findall(r"`(\w+)`", arrays.partition("holds arrays")[2])) == set(TOKEN_FIELDS)


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
    wholes = st.integers(0, 2**63)
    items = dict.fromkeys(TOKEN_FIELDS, numbers) | {"ids": wholes, "weights_versions": wholes}
    items |= {"trained_on": st.booleans(), "texts": st.text(max_size=3)}
    lists = {name: st.lists(item, min_size=n, max_size=n) for name, item in items.items()}
    lists["turns"] = st.lists(st.integers(0, turns), min_size=n, max_size=n).map(sorted)
    return Tokens(draw(lists.pop("ids")), **{k: draw(st.none() | one) for k, one in lists.items()})


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
def test_a_written_episode_is_read_back_exactly(episode: Trajectory) -> None:
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


def test_nan_and_infinities_are_kept() -> None:
    odd = [math.nan, math.inf, -math.inf]
    episode = Trajectory(actions=["x"], rewards=[math.nan], tokens=Tokens([1, 2, 3], odd))
    assert math.isnan(reread(episode).total_reward)
    written = json.loads(episode.to_json())
    assert written["tokens"]["log_probs"] == [None, "Infinity", "-Infinity"]
    again = reread(episode).tokens
    assert again is not None
    assert again.log_probs is not None
    assert math.isnan(again.log_probs[0])
    assert again.log_probs[1:] == [math.inf, -math.inf]


def test_arrays_become_lists_without_losing_precision() -> None:
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


def test_values_that_json_lacks_are_written_by_their_repr() -> None:
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

"""Natural replies, each with the move it means, and how the reader does on them.

``natural_tuned.txt`` was used while the reader was written; ``natural_held_out.txt`` was not looked
at. ``natural_third.txt`` was written after it: 61 of 66 were read as meant, none misread, and 38 of
38 refused; three more are read since then. A line is ``move | reply``, under the name of a game;
``-`` stands for "no move".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

import llm_gym  # noqa: F401  (registers the environments)


class NaturalReply(NamedTuple):
    """What a model may write in the first state of a game, and what it means."""

    game: str
    move: str | None
    text: str


def natural_replies(name: str) -> Iterator[NaturalReply]:
    """Yield the replies of the set ``name``: tuned, held_out or third."""
    game = ""
    for line in (Path(__file__).parent / f"natural_{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            game = line[2:]
        elif line:
            move, _, text = line.partition(" | ")
            text = text.replace("\\n", "\n").replace("\\\\", "\\")
            yield NaturalReply(game, None if move == "-" else move, text)


def judge_reply(reply: NaturalReply) -> tuple[str, Any]:
    """Return right, wrong, refused or played, and the move that was read."""
    env: Any = gym.make(f"llm_gym/{reply.game}-v0").unwrapped
    env.reset(seed=0)
    start = env.snapshot()
    did = env.step(reply.text)
    info = did[4]
    if not info["valid_action"]:
        return ("right" if reply.move is None else "refused"), info["reader"]
    if reply.move is None:
        return "played", info["move"]
    env.restore(start)
    meant = env.step(reply.move)
    return ("right" if meant[:3] == did[:3] else "wrong"), info["move"]


def shares(name: str) -> dict[str, float]:
    """Return how many replies of a set are read as meant, misread, and rightly refused."""
    count: Counter[tuple[bool, str]] = Counter()
    for reply in natural_replies(name):
        count[reply.move is not None, judge_reply(reply)[0]] += 1
    moves = sum(number for (is_move, _), number in count.items() if is_move)
    others = sum(number for (is_move, _), number in count.items() if not is_move)
    return {
        "as_meant": count[True, "right"] / moves,
        "misread": count[True, "wrong"] / moves,
        "rightly_refused": count[False, "right"] / others,
    }

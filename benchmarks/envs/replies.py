"""How replies are read: many ways to say a move, in every game, and what a small model wrote.

Each phrasing of ``phrasings.py`` is played in every family of games, for two legal moves. It is
accepted if it has the effect of the bare move, and refused if nothing is played. All action formats
are tested. Then come natural replies to the first state of a game, and recorded replies of
SmolLM2-135M-Instruct, read with and without ``strict``. The last line of stdout is JSON.

    python -m benchmarks.envs.replies            # writes results/replies.json
    python -m benchmarks.envs.replies --failures # what fails among the tuned phrasings
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import llm_gym  # noqa: F401  (registers the environments)
from benchmarks.envs.phrasings import ACCEPTED, REFUSED, is_tuned
from benchmarks.lib.machine import GAME_PATHS, RESULTS, ROOT, provenance
from llm_gym.reading.formats import FORMATS
from llm_gym.registry.suite import ENVS

SETS = ROOT / "tests" / "reading"
RECORDED = SETS / "replies.jsonl"
UNSEEN = ("sixth", "eighth")
NATURAL = ("tuned", "held_out", "third", "fourth", "fifth", "seventh", *UNSEEN)
"""Sets of natural replies. The rules were made for the first; the failures of the next five
have been looked at since; those of the unseen ones never, so they are not even kept. The seventh
and eighth are halves of one set, whose author also wrote the rules."""
RESULT = RESULTS / "replies.json"
NOT_ASKED = {"llm_gym/Dataset-v0"}  # an answer there is any text, and the grader reads it
SETTLED = {"llm_gym/Memory-v0": 2}  # moves before the one that matters
FREE = ("llm_gym/SearchQA-v0", "llm_gym/TextToSQL-v0", "llm_gym/MathPython-v0")
ASKS_BACK = {"{m}, or not?", "{m} / {n} ?"}  # a search may be a question, and end like one


def families() -> list[str]:
    first = {row.entry_point: row.id for row in reversed(ENVS)}
    return [name for name in list(first.values())[::-1] if name not in NOT_ASKED]


class State(NamedTuple):
    """A state of a game, and two legal moves in it."""

    id: str
    env: gym.Env[str, str]
    saved: bytes
    moves: tuple[str, str]

    def play(self, action: str) -> tuple[Any, ...]:
        """Return the effect of a reply, and restore the state."""
        game: Any = self.env.unwrapped
        game.restore(self.saved)
        text, reward, ended, _, info = game.step(action)
        return text, reward, ended, info["valid_action"], info["reader"], info["move"]


def states(name: str, seeds: int = 2, **settings: Any) -> Iterator[State]:
    """Yield a state of some seeds, each with two moves that do different things."""
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(20):
        env = gym.make(name, **settings)
        env.reset(seed=seed)
        game: Any = env.unwrapped
        for _ in range(SETTLED.get(name, 0)):
            env.step(game.random_action())
        saved = game.snapshot()
        moves = [game.random_move(rng) for _ in range(60)]
        if name in FREE:
            moves = [moves[0], game.oracle_move()]
        effects: dict[Any, str] = {}
        for move in dict.fromkeys(moves):
            done = State(name, env, saved, (move, move)).play(game._base_format.render(move))
            effects.setdefault(done[:3], move)
        if len(effects) > 1 and found < seeds:
            found += 1
            first, second = list(effects.values())[:2]
            yield State(name, env, saved, (first, second))
        env.close()


def say(phrasing: str, state: State) -> str:
    m, n = state.moves
    return phrasing.format(m=m, n=n, M=m[:1].upper() + m[1:])


def table(seeds: int = 2, **settings: Any) -> list[dict[str, Any]]:
    rows = []
    for name in families():
        for state in states(name, seeds, **settings):
            bare = state.play(state.moves[0])
            for phrasing in ACCEPTED + REFUSED:
                if phrasing in ASKS_BACK and name in FREE:
                    continue
                wanted = phrasing in ACCEPTED
                did = state.play(say(phrasing, state))
                good = did[:4] == bare[:4] if wanted else not did[3]
                rows.append({"id": name, "phrasing": phrasing, "wanted": wanted, "good": good,
                             "tuned": is_tuned(phrasing), "reply": say(phrasing, state),
                             "reader": did[4], "move": did[5]})  # fmt: skip
    return rows


def formats() -> dict[str, float]:
    """Return the share of accepted phrasings under each format, whatever it asks for."""
    shares = {}
    for form in FORMATS:
        good = []
        for name in families():
            for state in states(name, 1, action_format=form):
                bare = state.play(state.env.unwrapped._base_format.render(state.moves[0]))  # type: ignore[attr-defined]
                good += [state.play(say(p, state))[:4] == bare[:4] for p in ACCEPTED]
            shares[form] = round(sum(good) / len(good), 4)
    return shares


def natural_replies(name: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield game, meant move (None: nothing may be played) and reply of a set."""
    game = ""
    for line in (SETS / f"natural_{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            game = line[2:]
        elif line:
            move, _, text = line.partition(" | ")
            text = text.replace("\\n", "\n").replace("\\\\", "\\")
            yield game, None if move == "-" else move, text


def judged(game: str, move: str | None, text: str) -> str:
    """Return how a reply in the first state of a game is read: right, wrong, refused or played."""
    env: Any = gym.make(f"llm_gym/{game}-v0").unwrapped
    env.reset(seed=0)
    start = env.snapshot()
    did = env.step(text)
    if not did[4]["valid_action"]:
        return "right" if move is None else "refused"
    if move is None:
        return "played"
    env.restore(start)
    return "right" if env.step(move)[:3] == did[:3] else "wrong"


def natural(name: str) -> dict[str, Any]:
    """Return how many replies of a set mean a move or none, the shares read so, and the misses."""
    found = [(*reply, judged(*reply)) for reply in natural_replies(name)]
    moves = [how for _, move, _, how in found if move is not None]
    others = [how for _, move, _, how in found if move is None]
    misses = [f"{game}, {how}: {text}" for game, _, text, how in found if how != "right"]
    return {
        "moves": len(moves),
        "as_meant": round(moves.count("right") / len(moves), 4),
        "another": round(moves.count("wrong") / len(moves), 4),
        "no_moves": len(others),
        "refused": round(others.count("right") / len(others), 4),
        **({} if name in UNSEEN else {"misses": misses}),
    }


def recorded() -> list[dict[str, Any]]:
    """Return the recorded replies, each read with and without ``strict``."""
    rows = []
    for line in RECORDED.read_text().splitlines():
        row = json.loads(line)
        for strict in (True, False):
            env = gym.make(row["id"], strict=strict)
            env.reset(seed=row["seed"])
            for move in row["moves"]:
                env.step(move)
            info = env.step(row["reply"])[4]
            row["strict" if strict else "free"] = info["valid_action"]
            if not strict:
                row["move"], row["reader"] = info["move"], info["reader"]
            env.close()
        rows.append(row)
    return rows


def shares(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the share of good rows, by what was wanted and by half."""
    count: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        half = "tuned" if row["tuned"] else "untouched"
        count[f"{'accepted' if row['wanted'] else 'refused'} {half}"].append(row["good"])
    return {name: round(sum(good) / len(good), 4) for name, good in sorted(count.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--failures", action="store_true", help="of the tuned half, and stop")
    args = parser.parse_args()
    rows = table()
    if args.failures:
        for row in rows:
            if row["tuned"] and not row["good"]:
                print(f"{row['wanted']!s:6}{row['id'][8:]:20}{row['reply']!r:70.70}"
                      f"{row['reader']}: {row['move']}")  # fmt: skip
        print(shares([row for row in rows if row["tuned"]]))
        return
    result = {
        **provenance(__file__, depends_on=GAME_PATHS, seeds=range(20)),
        "games": len(families()),
        "phrasings": {"accepted": len(ACCEPTED), "refused": len(REFUSED)},
        "shares": shares(rows),
        "shares_strict": shares(table(strict=True)),
        "formats": formats(),
        "natural": {name: natural(name) for name in NATURAL},
        "smollm2": summary(recorded()),
        "by_phrasing": by_phrasing(rows),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    shown = ("shares", "shares_strict", "formats", "smollm2")
    print(json.dumps({key: result[key] for key in shown}))


def by_phrasing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["phrasing"]].append(row)
    return [
        {"phrasing": phrasing, "wanted": "accepted" if own[0]["wanted"] else "refused",
         "tuned": own[0]["tuned"], "right": round(sum(row["good"] for row in own) / len(own), 3)}
        for phrasing, own in found.items()
    ]  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    first = [row for row in rows if not row["moves"]]
    return {
        "replies": len(rows),
        **_usable(rows),
        "first_turn": {"replies": len(first), **_usable(first)},
    }


def _usable(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {
        "usable_strict": round(sum(row["strict"] for row in rows) / len(rows), 4),
        "usable": round(sum(row["free"] for row in rows) / len(rows), 4),
    }


if __name__ == "__main__":
    main()

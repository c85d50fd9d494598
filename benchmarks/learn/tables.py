"""Tables about learning: the demo, learning curves, training of all games, updates on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from statistics import fmean, median
from typing import Any

from benchmarks.learn import referee
from benchmarks.learn.learning import EPISODES, ESTIMATORS
from benchmarks.lib.curves import GOAL, NAMES, Row, learned
from benchmarks.lib.curves import reached as reached_at
from benchmarks.lib.tables import TEXT, read, table
from llm_gym.evaluate.scores import published

MODELS = {
    "smollm2": "SmolLM2-135M-Instruct",
    "0.5B": "0.5B, vocabulary 152k, random weights",
    "1.5B": "1.5B, vocabulary 152k, random weights",
}
GOOD = 0.8
"""Success at the start above which RL can lose something."""
NEARLY = 0.9
"""Share of a specialist's success that one model for all games is to have."""
GAIN = 0.2
"""Points, as a share, that reinforcement learning is to add to the warm start."""
SCALES = {"CartPole-v1": (21.0, 100.0)}
"""Returns of a random player and of the best, in 100 turns, where success is not the point."""
SEED = "--training.seed"
PLAYERS = ("random", "reflex", "solver")
PAID = (*SCALES, "CliffWalking-v1", "Taxi-v4", "Acrobot-v1", "Blackjack-v1")
"""Environments whose return is shown as well."""


def demo(result: Any) -> str:
    columns = {"seed": "{}"}
    columns |= dict.fromkeys(("before", "after", "1,000 fresh episodes"), "{:.1%}")
    columns |= dict.fromkeys(("iterations", "to 90 %"), "{}")
    columns |= dict.fromkeys(("seconds in all", "CPU seconds"), "{:.0f}")
    keys = ("seed", "before", "after", "fresh")
    keys += ("iterations", "iterations_to_90", "total_s", "cpu_s")
    return table(columns, [[row[key] for key in keys] for row in result["rows"]])


def learning(result: Any) -> str:
    """Success at the end: a row per game, a column per estimator, the mean and range of seeds."""
    found = learned(result["rows"])
    won, pairs = pairs_won(found)
    names = [name for name in NAMES if any(game[name] for game in found.values())]
    columns = {"game": TEXT, "start": "{:.0%}"} | {NAMES[name]: "{}" for name in names}
    lines = []
    for game in (game for game in EPISODES if game in found):
        starts = [run["curve"][0]["success"] for run in found[game]["gae"]]
        lines.append((game, fmean(starts), *(_ends(found[game][name]) for name in names)))
    return (
        f"In {won} of {pairs} pairs of game and estimator every seed ended at {GOAL:.0%} or more."
        f"\n\n{table(columns, lines)}"
    )


def _ends(runs: Sequence[Row]) -> str | None:
    """Return the mean success at the end, and its range where there are several seeds."""
    ends = [run["final"] for run in runs]
    if len(ends) < 2:
        return f"{ends[0]:.0%}" if ends else None
    return f"{fmean(ends):.0%} ({100 * min(ends):.0f}-{100 * max(ends):.0f})"


def pairs_won(found: Mapping[str, Mapping[str, Sequence[Row]]]) -> tuple[int, int]:
    """Return the pairs of game and estimator whose seeds all end at ``GOAL``, and all pairs."""
    pairs = [found[game][name] for game in found for name in ESTIMATORS if found[game][name]]
    return sum(all(run["final"] >= GOAL for run in runs) for runs in pairs), len(pairs)


BY_STATES = ("gigpo", "state_td")
"""Estimators that compare turns of equal states."""


def pick(result: Any) -> str:
    """Sampled tokens to ``GOAL``, the median of seeds: the best of the others, and by states."""
    columns = {"game": TEXT, "seeds": "{}", "best of the others": TEXT, "tokens": "{:,.0f}"}
    columns |= {NAMES[name]: "{:,.0f}" for name in BY_STATES}
    lines = list[tuple[Any, ...]]()
    for game, runs in learned(result["rows"]).items():
        needed = {name: _tokens(own) for name, own in runs.items()}
        best = min((name for name in needed if name not in BY_STATES), key=needed.__getitem__)
        own = [needed[name] for name in BY_STATES]
        times = needed[best] / min(own) if max(needed[best], min(own)) < inf else None
        cells = [None if each == inf else each for each in (needed[best], *own)]
        lines.append((game, len(runs[best]), NAMES[best] if cells[0] else None, *cells, times))
    return table(columns | {"ratio": "{:.2f}"}, lines)


def _tokens(runs: Sequence[Row]) -> float:
    """Return the median of what seeds sampled to ``GOAL``; infinite if half never came there."""
    found = (reached_at(run["curve"], GOAL, "tokens") for run in runs)
    return median(inf if each is None else each for each in found)


def gpu_update(result: Any) -> str:
    """One update beside a loop written by hand, by the size of micro-batches."""
    columns = {"model": TEXT, "`training.micro_batch_tokens`": "{:,}"}
    columns |= dict.fromkeys(("by hand", "ours", "speed, memory over the loop by hand"), TEXT)
    rows = [
        (
            MODELS.get(row["model"], row["model"]),
            row["ours"]["micro_batch_tokens"],
            *(
                f"{row[who]['seconds']:.2f} s, {row[who]['peak_gib']:.1f} GiB"
                for who in ("hand", "ours")
            ),
            f"{row['ratio']:.2f}, {row['memory']:.2f}",
        )
        for row in result["update"]["rows"]
        if row["ours"]["micro_batch_tokens"] in (8192, 16384)
    ]
    return table(columns, rows)


def gpu_fits(result: Any) -> str:
    found: dict[str, list[float | str]] = {}
    for row in result["fits"]["rows"]:
        cell = row["peak_gib"] if row["fits"] else f"refused: {row['planned_gib']:.0f} planned"
        found.setdefault(row["model"], []).append(cell)
    columns = {"": TEXT}
    columns |= dict.fromkeys(("all weights", "checkpointed", "LoRA on a bfloat16 base"), "{:.1f}")
    return table(columns, [(model, *cells) for model, cells in found.items()])


def gpu_limits(found: Any) -> str:
    """Whole iterations by phase, beside bare vLLM and the update alone."""
    columns = {"model": TEXT} | dict.fromkeys(
        ("an iteration", "play", "score", "train", "bare vLLM", "update alone"),
        "{:.2f} s",
    )
    columns |= {"limits / iteration": "{:.2f}"}
    keys = ("whole", "collect", "score", "train", "bare", "update_alone")
    rows = [
        (MODELS.get(name, name), *(row["median"][key] for key in (*keys, "ratio")))
        for name, row in found["rows"].items()
        if "median" in row
    ]
    return table(columns, rows)


def train_all(result: Any) -> str:
    """``llm-gym train ID`` with nothing else: families of the suite, then other environments."""
    rows: dict[str, list[Row]] = {}
    for command, row in result["rows"].items():
        name = command.removeprefix("llm-gym train ").partition(f" {SEED}")[0]
        if "success" in row and _is_bare(name):
            rows.setdefault(name, []).append(row)
    own = {name: runs for name, runs in rows.items() if name.startswith("llm_gym/")}
    foreign = {name: runs for name, runs in rows.items() if name not in own}
    ends = [mean(above_random, runs) or 0.0 for runs in own.values()]
    added = sum((mean(gain, runs) or 0.0) >= GAIN for runs in rows.values())
    return (
        f"{sum(end >= GAIN for end in ends)} of {len(own)} families end {100 * GAIN:.0f} points or "
        f"more above the random legal player, {sum(end < 0 for end in ends)} below it, in the mean "
        f"of their seeds. RL added {100 * GAIN:.0f} points or more to the warm start in {added} of "
        f"{len(rows)} commands. {steadiness([run for runs in own.values() for run in runs])}\n\n"
        f"{_trained(own, PLAYERS)}\n\n{_trained(foreign, PLAYERS[-1:])}"
    )


def steadiness(runs: Sequence[Row]) -> str:
    """Return how many of the runs that start well lose nothing of it."""
    good = [run for run in runs if run["curve"] and (run["curve_start"] or 0.0) > GOOD]
    kept = sum(min(run["curve"]) >= run["curve_start_low"] for run in good)
    short = sum(len(run["curve"]) == 1 for run in good)
    return (
        f"Of {len(good)} runs that start above {100 * GOOD:.0f} %, {kept} have no evaluation below "
        f"the interval of their start ({short} were good enough at the first one and ended there)."
    )


WITHOUT_TEACHER = ("random", "best_random")
"""Players of the warm start that no solver helps."""


def train_random(result: Any) -> str:
    """The same families without a teacher: RL from random moves, or from the best of them."""
    runs: dict[str, dict[str, Row]] = {}
    for command, row in result["rows"].items():
        name, _, player = command.removeprefix("llm-gym train ").partition(" --warm-start.player ")
        if "success" in row and player in WITHOUT_TEACHER:
            runs.setdefault(name, {})[player] = row
    ends = [(player, when) for player in WITHOUT_TEACHER for when in ("warm_start", "trained")]
    names = [f"`{player}`, {when.replace('_', ' ')}" for player, when in ends]
    columns = {"id": TEXT} | dict.fromkeys(("random player", *names), "{:.0f}")
    above = {
        player: {name: above_random(own[player]) for name, own in runs.items() if player in own}
        for player in WITHOUT_TEACHER
    }
    lines, others = [], []
    for name, own in sorted(runs.items(), key=lambda item: -(best_end(item[1]) or 0.0)):
        first = next(iter(own.values()))
        found = [score(own[player], when) if player in own else None for player, when in ends]
        numbers = [None if x is None else round(100 * x) for x in (chance(first), *found)]
        if any((each.get(name) or 0.0) >= GAIN for each in above.values()):
            lines.append((f"`{name}`", *numbers))
        else:
            short = name.removeprefix("llm_gym/").removesuffix("-v0")
            others.append(f"{short} {round(100 * (best_end(own) or 0.0))} ({numbers[0]})")
    counts = [
        f"{sum((end or 0.0) >= GAIN for end in own.values())} of {len(own)} with `{player}`"
        for player, own in above.items()
    ]
    return (
        f"Families that end {100 * GAIN:.0f} points or more above the random legal player: "
        f"{', '.join(counts)}; {len(lines)} of {len(runs)} with either.\n\n"
        f"{table(columns, lines)}\n\n"
        f"The others end at, with the better one (random player): {', '.join(others)}."
    )


def best_end(runs: Mapping[str, Row]) -> float | None:
    """Return the best success at the end of some runs of one environment."""
    return max(
        (end for run in runs.values() if (end := score(run, "trained")) is not None), default=None
    )


def mean(of: Callable[[Row], float | None], runs: Iterable[Row]) -> float | None:
    known = [value for run in runs if (value := of(run)) is not None]
    return fmean(known) if known else None


def _is_bare(name: str) -> bool:
    """Whether a command has an id and no setting, but for the slippery lake's."""
    rest = name.split()
    return "-v" in rest[0] and (len(rest) == 1 or rest[1] == "--import" or "slippery" in rest[-1])


def _trained(commands: Mapping[str, Sequence[Row]], players: Sequence[str] = ()) -> str:
    """Return a line for each command, the best player first: means of its seeds."""
    columns: dict[str, str] = {"`llm-gym train …`": TEXT} | dict.fromkeys(players, "{}")
    columns |= dict.fromkeys(("warm start", "trained", "CPU s"), "{}")
    lines = []
    for name, runs in sorted(
        commands.items(), key=lambda item: -(mean(lambda run: score(run, "trained"), item[1]) or 0)
    ):
        row = runs[0]
        marks = {
            "\\*": row["env_id"] in PAID,
            "#": row.get("imitated") == "reflex",
        }
        cut = sum(bool(run["exit"] or run.get("stopped")) for run in runs)
        lines.append(
            (
                f"`{name}`{''.join(mark for mark, holds in marks.items() if holds)}",
                *(_by_player(row, player) for player in players),
                *(_at(runs, when) for when in ("warm_start", "trained")),
                f"{fmean(run['cpu_s'] for run in runs):.0f}" + " (cut)" * (cut > 0),
            )
        )
    return table(columns, lines)


def _by_player(row: Row, player: str) -> str | None:
    """Return the published success of a player, or what the run measured of the solver."""
    if known := published().get(row["env_id"]):
        return f"{100 * known[player].success:.0f}"
    if player not in row:
        return None
    paid = f" ({row[player]['return']:.2g})" if row["env_id"] in PAID else ""
    return f"{100 * row[player]['success']:.0f}{paid}"


def _at(runs: Sequence[Row], when: str) -> str | None:
    """Return the mean at a stage; at the end with its range, where there are several seeds."""
    found = [value for run in runs if (value := score(run, when)) is not None]
    if not found:
        return None
    text = f"{100 * fmean(found):.0f}"
    if when == "trained" and len(found) > 1:
        text += f" ({100 * min(found):.0f}-{100 * max(found):.0f})"
    if runs[0]["env_id"] in PAID:
        text += f" ({fmean(run['return'][when] for run in runs):.2g})"
    return text


def score(row: Mapping[str, Any], when: str) -> float | None:
    """Return success, or where the return lies between a random player's and the best."""
    if row["env_id"] not in SCALES:
        known: float | None = row["success"][when]
        return known
    low, high = SCALES[row["env_id"]]
    paid = row["return"][when]
    return None if paid is None else max(0.0, (paid - low) / (high - low))


def chance(row: Mapping[str, Any]) -> float | None:
    """Return the published success of the random legal player."""
    known = published().get(row["env_id"])
    return None if known is None else known["random"].success


def above_random(row: Mapping[str, Any]) -> float | None:
    """Return how far a run ended above the random legal player."""
    low, reached = chance(row), score(row, "trained")
    return None if low is None or reached is None else round(reached - low, 4)


def gain(row: Mapping[str, Any]) -> float | None:
    """Return what reinforcement learning added to the warm start."""
    before, after = score(row, "warm_start"), score(row, "trained")
    return None if before is None or after is None else round(after - before, 4)


def train_model(result: Any) -> str:
    """A given model on every id, with nothing else set."""
    runs = runs_by_id(result["rows"])
    own = {id: rows for id, rows in runs.items() if id.startswith("llm_gym/")}
    given = (score(row, "random_weights") for rows in own.values() for row in rows)
    starts = [share for share in given if share is not None]
    all_won = [id for id, rows in own.items() if min(map(_end, rows)) == 1]
    names = ", ".join(re.split("[/-]", id)[-2] for id in all_won)
    kept = steadiness([row for rows in own.values() for row in rows])
    return (
        f"The model as given wins {min(starts):.0%} to {max(starts):.0%} of its episodes. "
        f"{model_goals(result['rows'])}. {kept} These end at 100 % with every seed: {names}.\n\n"
        + taught({id: rows for id, rows in runs.items() if id not in all_won})
    )


def runs_by_id(rows: Mapping[str, Row]) -> dict[str, list[Row]]:
    """Return the runs of each id, which differ in their seeds; failed ones are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows.values():
        if "success" in row:
            found.setdefault(row["env_id"], []).append(row)
    return found


def _end(row: Row) -> float:
    return score(row, "trained") or 0.0


def model_goals(rows: Mapping[str, Row]) -> str:
    own = {id: runs for id, runs in runs_by_id(rows).items() if id.startswith("llm_gym/")}
    good = sum(fmean(map(_end, runs)) >= GOOD for runs in own.values())
    return f"{good} of {len(own)} games end at {GOOD:.0%} or more, in the mean of their seeds"


def taught(runs: Mapping[str, Sequence[Row]]) -> str:
    """Return a line for each id, the best first: means of its seeds."""
    columns = {"id": TEXT} | dict.fromkeys(("taught", "end", "seeds"), "{}")
    lines = [
        (f"`{id}`", *(_at(rows, when) for when in ("warm_start", "trained")), len(rows))
        for id, rows in sorted(runs.items(), key=lambda item: -fmean(map(_end, item[1])))
    ]
    return table(columns, lines)


def suite_model(result: Any) -> str:
    """One model on 24 games and in six other families, beside one model for each game."""
    one = runs_by_id(read("train_model")["rows"])
    alone = {id: fmean(map(_end, runs)) for id, runs in one.items()}
    before, after = (_suite(result["rows"], when) for when in ("before", "after"))
    trained = {id: success for id, success in after.items() if id not in before}
    short = [id for id in trained if trained[id] < NEARLY * alone[id]]
    columns = {"trained on": TEXT, "this model": "{:.0%}", "one model for this game": "{:.0%}"}
    others = {"not trained on": TEXT, "as given": "{:.0%}", "this model": "{:.0%}"}
    return (
        f"It has {suite_means(result['rows'])}. In {len(trained) - len(short)} games it reaches at "
        f"least {NEARLY} of what a model for this game alone reaches; in the others:\n\n"
        + table(columns, [(f"`{id}`", trained[id], alone[id]) for id in short])
        + "\n\n"
        + table(others, [(f"`{id}`", before[id], after[id]) for id in before])
    )


def _suite(rows: Mapping[str, Any], when: str) -> dict[str, float]:
    return {row["env"]: row["success"] for key, row in rows.items() if key.startswith(f"{when}/")}


def suite_means(rows: Mapping[str, Any]) -> str:
    """Return mean success in the games that were trained on, and in those that were not."""
    before, after = _suite(rows, "before"), _suite(rows, "after")
    own, other = ([after[id] for id in after if (id in before) == held_out] for held_out in (0, 1))
    return (
        f"{fmean(own):.0%} success in the mean of {len(own)} games; in {len(other)} other families "
        f"{fmean(other):.0%}, as given {fmean(before.values()):.0%}"
    )


def judge(result: Any) -> str:
    """Correlation of each estimator with the true advantage of a turn."""
    stages = {"before": "after the warm start", "after": "after training"}
    models = {"embedded": result, "SmolLM2": read("credit_model")}
    found = {
        f"{model}, {title}": correlations(own["rows"], stage)
        for model, own in models.items()
        for stage, title in stages.items()
    }
    names = next(iter(found.values()))
    lines = [(name, *(each.get(name) for each in found.values())) for name in names]
    return table({"estimator": TEXT, **dict.fromkeys(found, "{:.2f}")}, lines)


def correlations(rows: Mapping[str, Any], stage: str) -> dict[str, float | None]:
    """Return the correlation of each estimator: the mean of games, each the mean of its seeds."""
    cells: dict[str, dict[str, list[float]]] = {}
    for key, row in sorted(rows.items()):
        if stage not in row or " " in key:  # it failed, or had other settings
            continue
        found = {name: each["correlation"][0] for name, each in row[stage]["estimators"].items()}
        found["a perfect estimate"] = row[stage]["ceiling"] or None  # 0: nothing but noise
        for name, value in found.items():
            games = cells.setdefault(name, {})
            if value is not None:
                games.setdefault(key.partition("/")[0], []).append(value)
    return {
        name: fmean(map(fmean, each.values())) if each else None for name, each in cells.items()
    }


def claims(result: Any) -> str:
    """Published claims, and what became of them with both models."""
    return referee.shown(result["rows"], read("referee_model")["rows"])


def critic(result: Any) -> str:
    """PPO with and without a critic: success over the run by game, of both models."""
    columns = {"model": TEXT, "game": TEXT, "pairs": "{}"}
    columns |= dict.fromkeys(("with a critic", "without"), "{:.0%}") | {"95 % of the gain": TEXT}
    lines = []
    models = {"embedded": result, "SmolLM2": read("referee_model")}
    for model, rows in ((model, own["rows"]) for model, own in models.items()):
        for game in referee.TOKENS:
            own = {key: row for key, row in rows.items() if key.startswith(f"{game}/")}
            (found,) = (each for each in referee.verdicts(own) if each["claim"] == referee.OWN)
            if found["interval"]:
                arms = [
                    fmean(row["mean"] for row in own.values() if row.get("arm") == found[arm])
                    for arm in ("better", "worse")
                ]
                span = "{:+.2f} to {:+.2f}".format(*found["interval"])
                lines.append((model, game, found["pairs"], *arms, span))
    return table(columns, lines)


TABLES = {
    "judge": (judge, "credit"),
    "claims": (claims, "referee"),
    "critic": (critic, "referee"),
    "pick": (pick, "learning"),
    "train-all": (train_all, "train_all"),
    "train-model": (train_model, "train_model"),
    "suite-model": (suite_model, "suite_model"),
    "train-random": (train_random, "train_all"),
    "demo": (demo, "demo"),
    "learning": (learning, "learning"),
    "gpu-update": (gpu_update, "train_gpu"),
    "gpu-fits": (gpu_fits, "train_gpu"),
    "gpu-limits": (gpu_limits, "iteration_gpu"),
}
"""Marker on a page → what writes its table, and the result file that it reads."""

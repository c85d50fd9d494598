"""Does it hold? Hostile actions, files, servers and code; runs that are killed or out of disk.

``make harden`` tries all of it within twenty minutes and writes ``results/hardening.json``: counts,
and the slowest case of each. ``--parts files replies`` runs some; ``--scale 0.01`` fewer of each.
Exits with 1 if something did not hold. Only root can be three kinds of user and mount small disks;
without root these parts are skipped.
"""

import argparse
import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llm_gym  # noqa: F401 - registers the environments
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym.evaluate.endpoint import http
from llm_gym.registry.suite import ENVS
from tests.robustness import actions, files, other_users, replies, runs

RESULT = RESULTS / "hardening.json"
SIZES = {"actions": 10**6, "files": 200, "replies": 100, "sandbox": 100, "kills": 20, "disks": 20}
_ESCAPES = """
import json, sys, time
from llm_gym.tools.sandbox import Sandbox, SandboxError
from llm_gym.tools.sandbox.check import attempt, outside
from tests.tools.sandbox.attempts import ENDINGS, ESCAPES
isolation, most = sys.argv[1], int(sys.argv[2])
found = []
try:
    with outside() as place, Sandbox(isolation=isolation) as sandbox:
        for name, code in list({**ESCAPES, **ENDINGS}.items())[:most]:
            start = time.perf_counter()
            finding = attempt(sandbox, name, code, place)
            found.append([name, finding.contained, finding.detail, time.perf_counter() - start])
    print(json.dumps({"attempts": found}))
except SandboxError as error:
    print(json.dumps({"refused": str(error)}))
"""


def try_actions(size: int) -> dict[str, Any]:
    ids = [row.id for row in ENVS]
    each = -(-size // len(ids))
    found = {env_id: actions.play(env_id, each) for env_id in ids}
    slowest = max(found, key=lambda env_id: found[env_id]["slowest_s"])
    exceptions = [f"{id}: {one}" for id, row in found.items() for one in row["exceptions"]]
    wins = {id: row["wins"] for id, row in found.items() if row["wins"]}
    return {
        "ids": len(ids),
        "actions": sum(row["actions"] for row in found.values()),
        "exceptions": len(exceptions),
        "wins": sum(wins.values()),
        "slowest": {"case": slowest, "seconds": round(found[slowest]["slowest_s"], 4)},
        "held": not exceptions and not wins,
        "odd": [*exceptions[:10], *(f"{id}: {count} wins" for id, count in wins.items())][:20],
    }


def try_files(size: int) -> dict[str, Any]:
    odd, times = [], {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = files.hostile_files(folder)[:size]
        for path, reader in made:
            start = time.perf_counter()
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                wrong = files.read(path, reader)
            case = f"{path.parent.name}/{path.name}"
            times[case] = time.perf_counter() - start
            odd += [f"{case}: {wrong}"] if wrong else []
        odd += [f"written: {name}" for name in files.planted(folder)]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return {"files": len(made), "memory_grown_mb": grown, **_verdict(odd, times)}


def try_replies(size: int) -> dict[str, Any]:
    key, odd, times = "sk-Very/Secret_0123456789", [], {}
    os.environ["LLM_GYM_API_KEY"], http.MAX_BODY_BYTES = key, 8 << 20
    server = replies.HostileServer()
    chosen = list(replies.REPLIES)[:: max(1, len(replies.REPLIES) // max(size, 1))]
    for name in chosen:
        start = time.perf_counter()
        try:
            shown = replies.ask(server, name, timeout=0.5, backoff=http.Backoff(tries=1))
        except Exception as error:  # noqa: BLE001 - what is looked for
            shown = ""
            odd.append(f"{name}: {type(error).__name__}: {error!s:.200}")
        times[name] = time.perf_counter() - start
        odd += [f"{name}: the key is shown"] if key in shown else []
    server.close()
    return {"replies": len(chosen), **_verdict(odd, times)}


def try_sandbox(size: int) -> dict[str, Any]:
    if not other_users.can_switch_user():
        return {"skipped": "only root can be three kinds of user", "held": True}
    odd, times, modes = [], {}, {}
    for mode in other_users.MODES:
        for isolation in ("namespaces", "landlock"):
            done = other_users.run_as(mode, ["-c", _ESCAPES, isolation, str(max(size, 1) + 5)])
            case = f"{mode}, {isolation}"
            if done.returncode:
                odd.append(f"{case}: {done.stderr[-300:]}")
                continue
            outcome = json.loads(done.stdout.splitlines()[-1])
            if "refused" in outcome:
                modes[case] = f"refused: {outcome['refused']:.200}"
                continue
            rows = outcome["attempts"]
            modes[case] = {"attempts": len(rows), "contained": sum(row[1] for row in rows)}
            odd += [f"{case}: {row[0]}: {row[2]}" for row in rows if not row[1]]
            times |= {f"{case}: {row[0]}": row[3] for row in rows}
    return {"modes": modes, **_verdict(odd, times)}


def try_kills(size: int) -> dict[str, Any]:
    from tests.agents.run.resume_run import MOMENTS, VARIANTS, compare

    moments = list(MOMENTS)[:: max(1, len(MOMENTS) * len(VARIANTS) // size)]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        found = [compare(name, moments, Path(folder, name)) for name in VARIANTS]
    ends = [each[moment] for each in found for moment in moments]
    equal = sum(end["resumed"] and not end["different"] for end in ends)
    killed = sum(end["killed"] for end in ends)
    return {"runs": len(ends), "killed": killed, "equal": equal, "held": equal == len(ends)}


def try_disks(size: int) -> dict[str, Any]:
    if not other_users.can_switch_user():
        return {"skipped": "only root can mount small disks", "held": True}
    with tempfile.TemporaryDirectory() as folder:
        found = runs.full_disks(Path(folder), size)
    return {**found, "held": found["as_promised"] == found["runs"] and found["full"] > 0}


def _verdict(odd: list[str], times: dict[str, float]) -> dict[str, Any]:
    slowest = max(times, key=lambda case: times[case]) if times else ""
    return {
        "slowest": {"case": slowest, "seconds": round(times.get(slowest, 0.0), 3)},
        "held": not odd,
        "odd": odd[:20],
    }


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    # Runs first: they fork, and nothing else has started threads by then.
    "kills": try_kills,
    "disks": try_disks,
    "actions": try_actions,
    "files": try_files,
    "replies": try_replies,
    "sandbox": try_sandbox,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of every size, such as 0.01")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    result: dict[str, Any] = {**provenance(__file__, ["gymnasium", "numpy", "torch"]), "parts": {}}
    for name in [part for part in PARTS if part in options.parts]:
        size = max(1, round(SIZES[name] * options.scale))
        start = time.perf_counter()
        found = PARTS[name](size)
        seconds = round(time.perf_counter() - start, 1)
        about = {"size": size, "whole": size == SIZES[name], "seconds": seconds}
        result["parts"][name] = {**about, **found}
        mark = "held" if found["held"] else "DID NOT HOLD"
        print(f"{name:<8} {mark:<13} {seconds:7.1f} s  {json.dumps(found)[:300]}", flush=True)
    result["held"] = all(part["held"] for part in result["parts"].values())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    return int(not result["held"])


if __name__ == "__main__":
    sys.exit(main())

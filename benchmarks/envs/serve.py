"""How fast ``llm-gym serve`` is beside OpenEnv's own server.

Both servers run in ``.venv-openenv``, which this script creates; this process is the player. It
uses 64 WebSockets in OpenEnv's protocol on both, and on ours also requests of 64 rows. Slices
alternate. Speed is in steps per second of the server's CPU time.

    python -m benchmarks.envs.serve
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium as gym
import uvicorn
from websockets.asyncio.client import connect

from benchmarks.lib.machine import RESULTS, ROOT, provenance
from benchmarks.lib.workers import python_with
from llm_gym.evaluate.endpoint.http import JsonHTTP
from llm_gym.server.protocol import ROWS

GAME, PLAYERS, SECONDS, OPENENV = "llm_gym/GuessTheNumber-v0", 64, 4.0, "0.10.0"
COMMANDS = {
    "OpenEnv's server": ("benchmarks.envs.serve", "--openenv"),
    "llm-gym serve": ("llm_gym", "serve", GAME, "--port"),
}
PAIRS = [(name, "64 WebSockets") for name in COMMANDS] + [("llm-gym serve", "requests of 64 rows")]


def serve_openenv(port: int) -> None:
    """Serve the game with OpenEnv, as its template does."""
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

    class Said(Action):
        message: str

    class Shown(Observation):
        message: str
        info: dict[str, Any]

    class Game(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True
        state = State()

        def reset(self, seed: Any = None, episode_id: Any = None, **_: Any) -> Shown:
            self.env = getattr(self, "env", None) or gym.make(GAME)
            message, info = self.env.reset(seed=seed)
            return Shown(message=message, info=info)

        def step(self, action: Said, timeout_s: Any = None, **_: Any) -> Shown:
            message, reward, terminated, truncated, info = self.env.step(action.message)
            return Shown(message=message, reward=reward, done=terminated or truncated, info=info)

    app = create_fastapi_app(Game, Said, Shown, max_concurrent_envs=4096)
    uvicorn.run(app, port=port, access_log=False, log_level="critical")


def start(*command: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    process, host = subprocess.Popen([*command, port], cwd=ROOT), f"127.0.0.1:{port}"
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://{host}/health", timeout=1)
            return process, host
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{command[1:]} has ended")


def cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


async def over_sockets(host: str, until: float) -> int:

    async def play(seed: int) -> int:
        steps, done = 0, True
        async with connect(f"ws://{host}/ws", compression=None) as player:
            while time.monotonic() < until:
                seed, steps = seed + PLAYERS * done, steps + (not done)
                data = {"seed": seed} if done else {"message": str(1 + (seed + steps) % 20)}
                await player.send(json.dumps({"type": "reset" if done else "step", "data": data}))
                done = json.loads(await player.recv())["data"]["done"]
        return steps

    return sum(await asyncio.gather(*map(play, range(PLAYERS))))


async def over_rows(host: str, until: float) -> int:
    http, done, steps, turn = JsonHTTP(f"http://{host}"), [True] * PLAYERS, 0, 0
    names = [f"{time.monotonic_ns()}-{at:08}" for at in range(PLAYERS)]
    while time.monotonic() < until:
        turn, steps = turn + 1, steps + done.count(False)
        plays = (
            ("reset", [turn * PLAYERS + at, None]) if new else ("step", str(1 + (turn + at) % 20))
            for at, new in enumerate(done)
        )
        rows = [[name, turn, *play] for name, play in zip(names, plays, strict=True)]
        answers = http.post(ROWS, {"rows": rows}, 60)["rows"]
        done = [not new and (one[2] or one[3]) for one, new in zip(answers, done, strict=True)]
    http.post(ROWS, {"rows": [[name, turn + 1, "close", None] for name in names]}, 60)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="slices of each")
    parser.add_argument("--openenv", type=int, metavar="PORT", help="only serve with OpenEnv")
    args = parser.parse_args()
    if args.openenv:
        return serve_openenv(args.openenv)
    paths = ("llm_gym/core", "llm_gym/server", "llm_gym/envs/deduction")
    about = provenance(__file__, depends_on=paths) | {"openenv": OPENENV, "env": GAME}
    wanted = (f"openenv=={OPENENV}", "--editable", f"{ROOT}[serve,endpoint]")
    python, slices = python_with("openenv", wanted), dict[str, list[list[float]]]()
    servers = {name: start(python, "-m", *command) for name, command in COMMANDS.items()}
    try:
        for name, way in PAIRS * args.repeats:
            (process, host), play = servers[name], over_rows if "rows" in way else over_sockets
            began, used = time.monotonic(), cpu_seconds(process.pid)
            steps = asyncio.run(play(host, began + SECONDS))
            spent = time.monotonic() - began, cpu_seconds(process.pid) - used
            slices.setdefault(f"{name}, {way}", []).append([steps / each for each in spent])
    finally:
        for process, _ in servers.values():
            process.terminate()
    print(json.dumps(slices))
    found = about | {"steps_per_s_and_per_cpu_s_of_the_server": slices}
    (RESULTS / "serve.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

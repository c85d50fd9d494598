r"""How fast ``llm-gym serve`` is, beside OpenEnv's own server, and whether it forgets sessions.

Both serve the same game on loopback, each in a process of its own; the player is this process. It
plays the same moves over 64 WebSockets on either, in OpenEnv's protocol, and over ours in requests
of 64 rows. It speaks to the sockets itself, so that its own work is small beside the server's.
Slices alternate, so that whatever else the machine does hits all alike. Steps per second are those
of the pair of processes; steps per second of the server's own processor time say how many it could
answer if the player were no burden, and do not depend on the load.

Then 100,000 sessions are begun, played and ended, with the server's memory before and after.

    python -m benchmarks.envs.serve    # in a venv with openenv-core
    python -m benchmarks.envs.serve --seconds 1 --repeats 2 --sessions 5000

Prints a table; the last line of stdout is the same as JSON. Writes ``results/serve.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import RESULTS, ROOT, provenance
from llm_gym.endpoint.http import JsonHTTP
from llm_gym.server import protocol

RESULT = RESULTS / "serve.json"
GAME = "llm_gym/GuessTheNumber-v0"
PLAYERS = 64
_TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def server(command: list[str], port: int) -> Iterator[int]:
    """Run a server and give its process id, once it answers."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=quiet, stderr=quiet
    ) as process:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            process.wait(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_mib(pid: int) -> float:
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


class Player(asyncio.Protocol):
    """One session over a WebSocket, with as little work as possible: the server is what is timed.

    Frames as in RFC 6455; a mask of zeros leaves the text as it is.
    """

    def __init__(self, seed: int, until: float, port: int) -> None:
        self.seed, self.until, self.port = seed, until, port
        self.steps, self.heard, self.begun = 0, b"", False
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        lines = [
            "GET /ws HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Upgrade: websocket",
            "Connection: Upgrade", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
            "Sec-WebSocket-Version: 13",
        ]  # fmt: skip
        transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        self.heard += data
        if not self.begun:
            head, blank, self.heard = self.heard.partition(b"\r\n\r\n")
            if blank:
                assert head.startswith(b"HTTP/1.1 101"), head
                self.begun = True
                self.reset()
            return
        while (text := self.message()) is not None:
            self.answer(json.loads(text)["data"]["done"])

    def message(self) -> bytes | None:
        """Return the next message, if it is there."""
        heard = self.heard
        if len(heard) < 2 or heard[0] != 0x81:  # what is no text is the end, or a ping
            return None
        length, at = heard[1], 2
        if length == 126:
            length, at = int.from_bytes(heard[2:4], "big"), 4
        if len(heard) < at + length:
            return None
        self.heard = heard[at + length :]
        return heard[at : at + length]

    def say(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        self.transport.write(bytes((0x81, 0x80 | len(text))) + bytes(4) + text)

    def reset(self) -> None:
        self.say({"type": "reset", "data": {"seed": self.seed}})
        self.seed, self.moved = self.seed + PLAYERS, False

    def answer(self, done: bool) -> None:
        self.steps += self.moved
        if time.monotonic() >= self.until:
            self.say({"type": "close"})
            self.over.set_result(self.steps)
        elif done:
            self.reset()
        else:
            self.moved = True
            number = 1 + (self.seed + self.steps) % 20
            self.say({"type": "step", "data": {"message": str(number)}})


async def websockets(port: int, seconds: float) -> int:
    """Play with 64 WebSockets at once and return the number of steps."""
    loop, until = asyncio.get_running_loop(), time.monotonic() + seconds
    players = [Player(seed, until, port) for seed in range(PLAYERS)]
    for player in players:
        await loop.create_connection(lambda player=player: player, "127.0.0.1", port)
    return sum(await asyncio.gather(*(player.over for player in players)))


def rows(port: int, seconds: float) -> int:
    """Play with requests of 64 rows and return the number of steps."""
    http = JsonHTTP(f"http://127.0.0.1:{port}")
    names = [f"{os.getpid()}-{time.monotonic_ns()}-{row:04}" for row in range(PLAYERS)]
    done, steps, number, until = [True] * PLAYERS, 0, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        asked = [
            [name, number, "reset", [number, None]]
            if over
            else [name, number, "step", str(1 + (number + row) % 20)]
            for row, (name, over) in enumerate(zip(names, done, strict=True))
        ]
        answers = http.post(protocol.ROWS, {"rows": asked}, 60)["rows"]
        steps += done.count(False)
        done = [not over and (one[2] or one[3]) for one, over in zip(answers, done, strict=True)]
    http.post(protocol.ROWS, {"rows": [[name, number + 1, "close", None] for name in names]}, 60)
    http.close()
    return steps


def measure(
    ports: dict[str, int], pids: dict[str, int], args: argparse.Namespace
) -> dict[str, Any]:
    """Return steps per second, by the clock and by the server's processor time."""
    ways = {
        "OpenEnv's server, 64 WebSockets": (
            "openenv",
            lambda port: asyncio.run(websockets(port, args.seconds)),
        ),
        "llm-gym serve, 64 WebSockets": (
            "ours",
            lambda port: asyncio.run(websockets(port, args.seconds)),
        ),
        "llm-gym serve, requests of 64 rows": ("ours", lambda port: rows(port, args.seconds)),
    }
    slices: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(args.repeats):
        for name, (who, play) in ways.items():
            began, used = time.monotonic(), cpu_seconds(pids[who])
            steps = play(ports[who])
            used, took = cpu_seconds(pids[who]) - used, time.monotonic() - began
            slices[name].append((steps / took, steps / max(used, 1 / _TICK)))
    return {
        name: {
            "steps_per_s": round(statistics.median(one[0] for one in found)),
            "steps_per_server_cpu_s": round(statistics.median(one[1] for one in found)),
            "spread": round(max(one[1] for one in found) / min(one[1] for one in found), 2),
        }
        for name, found in slices.items()
    }


def forget(port: int, pid: int, sessions: int) -> dict[str, Any]:
    """Begin, play and end many sessions; return the server's memory before and after."""
    http = JsonHTTP(f"http://127.0.0.1:{port}")
    batch, begun, memory = 250, 0, []
    while begun < sessions + 5000:
        names = [f"session-{begun + at:012}" for at in range(batch)]
        asked = [
            row
            for name in names
            for row in ([name, 1, "reset", [begun, None]], [name, 2, "step", "10"])
        ]
        http.post(protocol.ROWS, {"rows": asked}, 60)
        closed = http.post(
            protocol.ROWS, {"rows": [[name, 3, "close", None] for name in names]}, 60
        )
        assert closed["rows"] == [[]] * batch
        begun += batch
        if begun >= 5000 and begun % 5000 == 0:  # the first thousands warm it up
            memory.append(round(memory_mib(pid), 1))
    text = http.get("/metrics", 60)
    still = int(text.split("\nllm_gym_sessions ")[1].split("\n")[0])
    http.close()
    return {
        "sessions": begun - 5000,
        "rss_mib_after_5000": memory[0],
        "rss_mib_at_the_end": memory[-1],
        "rss_mib_every_5000": memory,
        "sessions_still_open": still,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--env", default=GAME)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    ports = {"openenv": free_port(), "ours": free_port()}
    peer = ["-m", "benchmarks.peers.openenv_server", args.env, str(ports["openenv"])]
    ours = [
        "-c",
        "import sys; from llm_gym.cli import main; sys.exit(main())",
        "serve",
        args.env,
        "--port",
        str(ports["ours"]),
    ]
    with server(peer, ports["openenv"]) as first, server(ours, ports["ours"]) as second:
        speed = measure(ports, {"openenv": first, "ours": second}, args)
        memory = forget(ports["ours"], second, args.sessions)
    base = speed["OpenEnv's server, 64 WebSockets"]
    for one in speed.values():
        one["times_openenv"] = round(one["steps_per_s"] / base["steps_per_s"], 2)
        one["times_openenv_by_cpu"] = round(
            one["steps_per_server_cpu_s"] / base["steps_per_server_cpu_s"], 2
        )
    packages = ("openenv-core", "fastapi", "uvicorn", "websockets", "httptools", "uvloop")
    found = {**provenance(__file__, packages), "env": args.env, "speed": speed, "memory": memory}
    for name, one in speed.items():
        print(f"{name:<38}{one['steps_per_s']:>9} steps/s{one['times_openenv']:>7} x")
    args.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Two hundred hostile files, and the reader of each."""

import gzip
import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

from llm_gym.cli import main
from llm_gym.core.errors import LLMGymError
from llm_gym.datasets.files import open_source
from llm_gym.episodes import play_episode, read_episodes
from llm_gym.tools import ToolError
from llm_gym.tools.builtin.search import SearchTool
from llm_gym.tools.builtin.sql import SqlTool

Reader = Callable[[Path], object]
_GAME = "llm_gym/GuessTheNumber-v0"
_PLANT = "{0}/planted"


def _record() -> dict[str, Any]:
    env = gym.make(_GAME)
    line = play_episode(env, lambda observation: "7", seed=3).to_json()
    env.close()
    return json.loads(line)


def _records(folder: str) -> Iterator[tuple[str, bytes]]:
    good = _record()
    plant = _PLANT.format(folder)
    odd: list[Any] = [
        None, 7, -1, 1e400, "x", "\x1b[2J", "\ud800", [], {}, [[]], [None], {"a": 1}, True,
        10**400, "[" * 100, {"$dict": 7}, {"$repr": 7}, {"$float": "x"}, {"$x": 1},
        {"$dict": [[[], {}]]},
    ]  # fmt: skip
    for name in ("states", "actions", "rewards", "infos", "seed", "options", "env_spec", "tokens"):
        for at, value in enumerate(odd[:: 2 if name in ("states", "tokens") else 1]):
            line = json.dumps({**good, name: value})
            yield f"{name}-{at}.jsonl", line.encode() + b"\n"
    tools = [
        {"tool": "sql", "database": f"ATTACH '{plant}' AS x; CREATE TABLE x.t (a);"},
        {"tool": "sql", "database": f"VACUUM INTO '{plant}';"},
        {"tool": "os:system"}, {"mcp": ["touch", plant]}, {"tool": "python", "isolation": "none"},
    ]  # fmt: skip
    for at, tool in enumerate(tools):
        wrapper = {"name": "ToolUse", "entry_point": "llm_gym.wrappers.tool_use:ToolUse",
                   "kwargs": {"tools": [tool]}}  # fmt: skip
        spec = {**good["env_spec"], "additional_wrappers": [wrapper]}
        call = '<tool_call>{"name": "sql", "arguments": {"query": "SELECT 1"}}</tool_call>'
        changed = {**good, "env_spec": spec, "states": [], "actions": [call]}
        changed |= {name: [] for name in ("rewards", "dones", "infos", "moves")}
        changed |= {"terminated": [], "truncated": []}
        yield f"tool-{at}.jsonl", json.dumps(changed).encode() + b"\n"
    yield "bomb.jsonl.gz", gzip.compress(b'{"schema":' + b" " * (200 << 20))
    yield "deep.jsonl", b'{"schema": 1, "extra": ' + b"[" * 10**6 + b"]" * 10**6 + b"}\n"


def _tables() -> Iterator[tuple[str, bytes]]:
    yield "wide.csv", (",".join(f"c{at}" for at in range(20_000)) + "\n").encode()
    yield "twice.csv", b"a,a\n1,2\n"
    yield "empty.csv", b""
    yield "quote.csv", b'a,b\n"1,2\n' + b"x" * 10**6
    yield "zeros.csv", b"a,b\n\0,\0\n"
    yield "rows.tsv", b"a\tb\n1\n"
    yield "bomb.jsonl.gz", gzip.compress(b'{"a": 1}\n' * (30 << 20))
    yield "cut.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000)[:50]
    yield "none.jsonl.gz", b"no gzip"
    yield "deep.jsonl", b"[" * 10**6 + b"]" * 10**6 + b"\n"
    yield "digits.jsonl", b'{"a": ' + b"9" * 10**5 + b"}\n"
    yield "long.jsonl", b'{"a": "' + b"x" * (20 << 20) + b'"}\n'
    yield "none.jsonl", b"\xff\xfe\n"
    yield "list.jsonl", b"[1]\n2\nnull\n"
    yield "none.parquet", b"PAR1nothing"


def _configs() -> Iterator[tuple[str, bytes]]:
    lines = ["a: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"b{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 9)]
    yield "aliases.yaml", "\n".join(lines).encode()
    yield "deep.yaml", b"training: " + b"[" * 5000 + b"]" * 5000
    yield "deep.json", b'{"training": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    yield "large.json", b'{"training": "' + b"x" * (5 << 20) + b'"}'
    yield "object.yaml", b"model: !!python/object/apply:os.system ['true']"
    yield "twice.json", b'{"training": {"gamma": 1, "gamma": 0}}'
    yield "list.yaml", b"- 1\n- 2\n"
    yield "bytes.yaml", b"\xff\xfe\x00"
    yield "merge.yaml", b"a: &a {b: 1}\nc: {<<: *a}\n"
    yield "half.json", b'{"training": {'


def _random(count: int) -> Iterator[tuple[str, bytes]]:
    rng = random.Random(0)
    for at in range(count):
        suffix = rng.choice(["jsonl", "csv", "json", "yaml", "jsonl.gz", "db"])
        yield f"noise-{at}.{suffix}", rng.randbytes(rng.choice([1, 100, 5000]))


def hostile_files(folder: Path) -> list[tuple[Path, Reader]]:
    """Write the files; return each with its reader."""
    from llm_gym_agents.config import ConfigStore

    made: list[tuple[Path, Reader]] = []

    def add(
        kind: str, found: Iterator[tuple[str, bytes]], reader: Callable[[Path], object]
    ) -> None:
        place = folder / kind
        place.mkdir()
        for name, data in found:
            (place / name).write_bytes(data)
            made.append((place / name, reader))

    add("records", _records(str(folder)), _replay)
    add("tables", _tables(), _rows)
    add("configs", _configs(), ConfigStore.load)
    add("corpora", iter([("a.json", b"[" * 10**5), ("b.json", b"7"), ("c.json", b'{"a": 1}')]),
        lambda path: SearchTool(str(path)).execute(query="x"))  # fmt: skip
    add("noise", _random(max(0, 200 - len(made) - 1)), _by_suffix)
    view = folder / "view.db"
    with sqlite3.connect(view) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT writefile('{folder}/planted', 'x') AS a")
    connection.close()
    made.append((view, lambda path: SqlTool(str(path)).execute(query="SELECT * FROM v")))
    return made


def _replay(path: Path) -> int:
    status = main(["replay", str(path)])
    if not path.name.endswith(".gz"):
        list(read_episodes(path, torn="skip", on_bad=lambda error: None))
    return status


def _by_suffix(path: Path) -> object:
    from llm_gym_agents.config import ConfigStore

    if path.suffix in (".json", ".yaml"):
        return ConfigStore.load(path)
    if path.suffix == ".db":
        return SqlTool(str(path)).execute(query="SELECT * FROM sqlite_master")
    return _rows(path)


def _rows(path: Path) -> list[object]:
    source = open_source(path)
    return [source.data(at) for at in range(len(source))]


def read(path: Path, reader: Reader) -> str:
    """Read one file; return what went wrong in a way that it must not, or nothing."""
    try:
        reader(path)
    except (LLMGymError, ToolError) as error:
        return f"a message of {len(str(error))} characters" if len(str(error)) > 2000 else ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {error!s:.200}"
    return ""


def planted(folder: Path) -> list[str]:
    """Return the files that a hostile file has made us write."""
    return [name for name in os.listdir(folder) if name.startswith("planted")]

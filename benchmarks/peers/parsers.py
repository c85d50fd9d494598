"""The parsers of one suite in one process, reading on request.

The same file runs in our environment and in the peers'. It reads one JSON request per line and
answers each with one line of JSON; clocks are read here, so the pipe is not part of any figure.

    {"op": "versions"}
    {"op": "rate", "parser": "hermes", "text": "...", "seconds": 0.3}
    {"op": "time", "parser": "hermes", "text": "..."}
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from timeit import default_timer as now
from typing import Any

PACKAGES = {"llm_gym": "llm-gym", "gem": "gem-llm", "skyrl": "skyrl-gym"}


def reader(suite: str, name: str) -> Callable[[str], Any]:
    """Return the function that looks for a call in a reply."""
    if suite == "gem":
        from gem.tools.python_code_tool import PythonCodeTool

        return PythonCodeTool()._parse_action
    if suite == "skyrl":
        from skyrl_gym.envs.searchcode.env import SearchCodeEnv

        read = SearchCodeEnv({}, {"reward_spec": {"ground_truth": ""}})._parse_action

        def forgiving(text: str) -> Any:
            try:
                return read(text)
            except ValueError as error:  # its way to say that there is no call
                return error

        return forgiving
    from llm_gym.reading.parsers import get_parser

    return get_parser(name).parse


def rate(read: Callable[[str], Any], text: str, seconds: float) -> float:
    count, start = 0, now()
    while (elapsed := now() - start) < seconds:
        for _ in range(20):
            read(text)
        count += 20
    return count / elapsed


def once(read: Callable[[str], Any], text: str) -> float:
    start = now()
    read(text)
    return now() - start


def main(suite: str) -> None:
    """Answer requests until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print; only answers may go out
    readers: dict[str, Callable[[str], Any]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = {PACKAGES[suite]: importlib.metadata.version(PACKAGES[suite])}
        if request["op"] != "versions":
            name = request["parser"]
            read = readers.setdefault(name, reader(suite, name))
            if request["op"] == "rate":
                answer = rate(read, request["text"], request["seconds"])
            else:
                answer = once(read, request["text"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""The Python tool of one suite in one process, answering questions.

The same file runs in our environment and in the peers'. It reads one JSON request per line and
answers each with one line of JSON; clocks are read here, so the pipe is not part of any figure.

    {"op": "calls", "code": "print(1)", "seconds": 0.5}
    {"op": "parses", "code": "print(1)", "seconds": 0.1}
    {"op": "timeout", "seconds": 2}
    {"op": "probe"}
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from timeit import default_timer as now
from typing import Any

THOUGHT = "Let me think about this step by step, and check it with a program. " * 8
ENDLESS = "import time\nwhile True: time.sleep(1)"
# What the tool lets out or keeps to itself, as far as one line of code can tell. The word is in two
# pieces, so that a traceback which quotes the code does not contain it.
YES = "print('Y' 'ES')"
PROBES = {
    "reads /etc/passwd": f"open('/etc/passwd').read()\n{YES}",
    "sees the environment": f"import os\nos.environ['BENCHMARK_SECRET']\n{YES}",
    "opens a socket": f"import socket\nsocket.socket()\n{YES}",
    "starts a program": "import importlib\n"
    f"importlib.import_module('sub' + 'process').run(['true'], check=True)\n{YES}",
    "shows output beside a warning": f"import sys\n{YES}\nprint('hm', file=sys.stderr)",
}


class Ours:
    """llm_gym: the tool through its registry, stateless or stateful."""

    packages = ("llm-gym",)

    def __init__(self, timeout: float, stateful: bool = False) -> None:
        from llm_gym.reading.calls import ToolCall
        from llm_gym.reading.parsers import get_parser
        from llm_gym.tools import ToolRegistry
        from llm_gym.tools.builtin import PythonTool

        self.registry = ToolRegistry([PythonTool(timeout=timeout, stateful=stateful)])
        self.parser = get_parser("hermes")
        self.call = ToolCall

    def run(self, code: str) -> str:
        return self.registry.execute_tool("python", code=code)[1]

    def reply(self, code: str) -> str:
        return self.parser.render([self.call("python", {"code": code})], THOUGHT.strip())

    def parse(self, reply: str) -> Any:
        return self.parser.parse(reply).calls[0].arguments["code"]


class OursStateful(Ours):
    """llm_gym, with variables kept from call to call."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout, stateful=True)


class Gem:
    """GEM's tool, with its default settings."""

    packages = ("gem-llm",)

    def __init__(self, timeout: float) -> None:
        from gem.tools.python_code_tool import PythonCodeTool

        self.tool = PythonCodeTool(timeout=timeout)

    def run(self, code: str) -> str:
        return self.tool.execute_action(f"<python>{code}</python>")[2]

    def reply(self, code: str) -> str:
        return f"{THOUGHT}<python>{code}</python>"

    def parse(self, reply: str) -> Any:
        return self.tool._parse_action(reply)[0]


class SkyRL:
    """SkyRL-Gym's tool, with the parser of its environment for search and code."""

    packages = ("skyrl-gym",)

    def __init__(self, timeout: float) -> None:
        from skyrl_gym.envs.searchcode.env import SearchCodeEnv
        from skyrl_gym.tools import PythonCodeExecutorToolGroup

        self.tool = PythonCodeExecutorToolGroup(timeout=timeout)
        self.env = SearchCodeEnv(extras={"reward_spec": {"ground_truth": "1"}})

    def run(self, code: str) -> str:
        return self.tool.execute_tool("python", code)

    def reply(self, code: str) -> str:
        return f"{THOUGHT}<tool><python>{code}</python></tool>"

    def parse(self, reply: str) -> Any:
        return self.env._parse_action(reply)[2][0]


SUITES: dict[str, Callable[[float], Any]] = {
    "llm_gym": Ours,
    "llm_gym stateful": OursStateful,
    "gem": Gem,
    "skyrl": SkyRL,
}


def rate(act: Callable[[], Any], seconds: float) -> dict[str, float]:
    """Return how often ``act`` was done, and in which time."""
    count, start = 0, now()
    while (elapsed := now() - start) < seconds:
        act()
        count += 1
    return {"count": count, "seconds": elapsed}


def answer(suite: str, tool: Any, request: dict[str, Any]) -> Any:
    if request["op"] == "versions":
        return {name: importlib.metadata.version(name) for name in tool.packages}
    if request["op"] == "calls":
        got = tool.run(request["code"])
        assert request["expect"] in got, got
        return rate(lambda: tool.run(request["code"]), request["seconds"])
    if request["op"] == "parses":
        reply = tool.reply(request["code"])
        assert tool.parse(reply) == request["code"], reply
        return rate(lambda: tool.parse(reply), request["seconds"])
    if request["op"] == "timeout":
        hasty = SUITES[suite](request["seconds"])
        start = now()
        hasty.run(ENDLESS)
        return now() - start
    return {name: "YES" in tool.run(code) for name, code in PROBES.items()}


def main(suite: str) -> None:
    """Answer requests until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print; only answers may go out
    os.environ["BENCHMARK_SECRET"] = "of the host"
    # One of the peers starts whatever "python" is found first.
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    tool = SUITES[suite](5.0)
    for line in sys.stdin:
        print(json.dumps(answer(suite, tool, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

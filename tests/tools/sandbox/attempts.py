"""The attempts of ``attempts.txt``, as code that can be run."""

import os
import re
from ast import literal_eval
from pathlib import Path

from llm_gym.tools.sandbox.inside.syscalls import MACHINES
from tests.tools.sandbox.calls import table

MACHINE = os.uname().machine
NUMBERS = table(MACHINE if MACHINE in MACHINES else "x86_64")
X32_BIT = 0x40000000
MODULES = re.compile(
    r"\b(array|atexit|builtins|ctypes|fcntl|importlib|json|mmap|os|platform|resource|signal|socket"
    r"|stat|struct|subprocess|sys|threading|time)\."
)
BY_NUMBER = """\
call = ctypes.CDLL(None, use_errno=True).syscall
for name, number, *arguments in {known!r}:
    got = call(number, *arguments)
    if got >= 0 and name not in ('setfsuid', 'personality'): print('ESCAPED', name, got)
    if name == 'personality' and got == 0x0040000: print('ESCAPED', name)"""


def _program(group, text):
    if group == "CALLS":
        rows = [call.split() for call in text.split(";")]
        known = [
            (name, NUMBERS[name], *map(literal_eval, arguments))
            for name, *arguments in rows
            if name in NUMBERS
        ]
        text = BY_NUMBER.format(known=known)
    text = text.replace("SOCKET_X32", str(NUMBERS["socket"] + X32_BIT))
    text = text.replace("CLONE", str(NUMBERS["clone"]))
    used = sorted(set(MODULES.findall(text)))
    return f"import {', '.join(used)}\n{text}" if used else text


def _read():
    """Return the code of every attempt by group and name, and the names with each mark."""
    groups, marks = {}, {"!": set(), "?": set()}
    _, *parts = re.split(r"^=== ", Path(__file__).with_suffix(".txt").read_text(), flags=re.M)
    for part in parts:
        title, *attempts = re.split(r"^# ", part, flags=re.M)
        group = title.split(":")[0]
        for each in attempts:
            name, text = each.rstrip().split("\n", 1)
            if name[-1] in marks:
                name, mark = name.rsplit(" ", 1)
                marks[mark].add(name)
            groups.setdefault(group, {})[name] = _program(group, text)
    return groups, marks


_GROUPS, _MARKS = _read()
CALLS, ENDINGS = _GROUPS["CALLS"], _GROUPS.pop("ENDINGS")
ESCAPES = {name: code for group in _GROUPS.values() for name, code in group.items()}
HARMFUL, CONDITIONAL = _MARKS["!"], _MARKS["?"]

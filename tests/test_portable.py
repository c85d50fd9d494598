"""Commands work where Unix-only modules are missing, as on Windows; the sandbox refuses.

A child process hides these modules from our packages. Packages of others know what machine they run
on, and import them.
"""

import json
import os

import pytest

from tests.evaluate.endpoint.fake_server import FakeServer
from tests.processes import run_python

UNIX_ONLY = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "termios", "tty")
HIDE = f"""
import builtins, sys

plain = builtins.__import__

def hiding(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {{}}).get("__name__", "")
    if name in {UNIX_ONLY!r} and importer.startswith("llm_gym"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return plain(name, globals, locals, fromlist, level)

builtins.__import__ = hiding
"""
COMMAND = HIDE + "from llm_gym.cli import main\nsys.exit(main(sys.argv[1:]))\n"


def run(*arguments, cwd, code=COMMAND, stdin=None):
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return run_python(code, *arguments, cwd=cwd, input=stdin, env=env)


def test_commands_work(tmp_path):
    commands = [
        ["list"], ["check", "llm_gym/GuessTheNumber-v0"], ["train", "--help"], ["eval", "--help"],
        ["serve", "--help"], ["view", "--help"],
    ]  # fmt: skip
    code = HIDE + (
        "import json\nfrom llm_gym.cli import main\nends = []\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        ends.append(main(arguments) or 0)\n"
        "    except SystemExit as end:\n"
        "        ends.append(end.code or 0)\n"
        "print(f'{ends}')\n"
    )
    done = run(json.dumps(commands), cwd=tmp_path, code=code)
    assert done.stdout.endswith(f"{[0] * len(commands)}\n"), done.stderr


def test_play_reads_moves_from_a_pipe(tmp_path):
    done = run("play", "llm_gym/GuessTheNumber-v0", "--seed", 0, cwd=tmp_path, stdin="50\n25\n")
    assert "Traceback" not in done.stderr
    assert "Turns left: 3" in done.stdout


@pytest.mark.slow
def test_a_served_model_is_evaluated(tmp_path):
    pytest.importorskip("httpx")
    game = ("eval", "llm_gym/GuessTheNumberEasy-v0", "--episodes", 2)
    with FakeServer(lambda messages: "50") as server:
        done = run(*game, "--endpoint", server.url, "--model", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


WORKERS = """
import llm_gym
if __name__ == '__main__':
    envs = llm_gym.make_vec('llm_gym/Echo-v0', 2, workers=2)
    print(len(envs.reset(seed=0)[0]), 'rows')
    envs.close()
"""
SANDBOX = """
from llm_gym.tools.sandbox import Sandbox, SandboxError
sys.platform = 'win32'
try:
    Sandbox().run('1')
except SandboxError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (WORKERS, "2 rows"),
        (SANDBOX, "Linux"),
        ("exec('import fcntl', {'__name__': 'llm_gym.core'})", "ModuleNotFoundError"),
    ],
    ids=["workers", "the sandbox refuses", "the modules are really hidden"],
)
def test_programs_work_or_refuse_without_unix_modules(tmp_path, code, printed):
    done = run(cwd=tmp_path, code=HIDE + code)
    assert printed in done.stdout + done.stderr


@pytest.mark.slow
def test_a_small_model_trains(tmp_path):
    pytest.importorskip("torch")
    done = run("train", "text-game-easy", "--smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

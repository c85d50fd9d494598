"""The llm-gym command, as a person uses it."""

import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import llm_gym
from llm_gym import cli
from llm_gym.cli import main
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import install_command
from llm_gym.registry.suite import ENVS
from tests.cli.errors import refused
from tests.processes import ROOT, run_python

ECHO, GUESS = "llm_gym/Echo-v0", "llm_gym/GuessTheNumber-v0"


def test_list_shows_every_environment_with_its_scores(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for row in ENVS:
        line = next(line for line in out.splitlines() if line.startswith(row.id + " "))
        assert line.count("%") >= 3
    assert "random" in out
    assert "oracle" in out


def test_list_searches_descriptions_and_prints_json(capsys):
    assert main(["list", "sliding puzzle"]) == 0
    out = capsys.readouterr().out
    assert "Bring the tiles of a sliding puzzle into order." in out
    assert "llm_gym/FifteenPuzzle-v0" in out
    assert "Sudoku" not in out
    assert main(["list", "--json", "Echo"]) == 0
    assert "Repeat the word" in json.loads(capsys.readouterr().out)[ECHO]["about"]
    assert main(["list", "taxi-", "--all"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["environment", "from", "limit"]


def test_a_person_plays_and_wins(monkeypatch, capsys):
    typed = "\n".join(["?", *map(str, range(1, 11))])
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    settings = ["--set", "high=10", "--set", "max_turns=10", "--seed", "3"]
    assert main(["play", "llm_gym/GuessTheNumber-v0", *settings]) == 0
    out = capsys.readouterr().out
    assert "whole number from 1 to 10" in out
    assert "1  2  3  4" in out, "? lists the moves"
    assert "[won after" in out


def test_the_end_of_input_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["play", "llm_gym/TextGame-v0", "--seed", "1"]) == 0
    assert "Goodbye." in capsys.readouterr().out


def test_play_shows_a_built_in_player_and_the_rules(capsys):
    assert main(["play", "llm_gym/TextGame-v0", "--seed", "1", "--player", "oracle"]) == 0
    out = capsys.readouterr().out
    assert "Your quest is done." in out
    assert "[won after" in out
    args = ["--set", "rules=system", "--player", "oracle", "--seed", "1"]
    assert main(["play", "llm_gym/GuessTheNumber-v0", *args]) == 0
    assert "whole number from 1 to 20" in capsys.readouterr().out


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """The current folder, whose modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_check_passes_a_sound_environment_and_names_a_broken_rule(capsys, beside):
    assert main(["check", "llm_gym/GuessTheNumber-v0"]) == 0
    assert "no rules broken" in capsys.readouterr().out
    assert main(["check", "llm_gym.envs.deduction.guess_the_number:GuessTheNumberEnv"]) == 0
    capsys.readouterr()
    (beside / "my_env.py").write_text(
        "from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv\n"
        "class MyEnv(GuessTheNumberEnv):\n"
        "    def oracle_move(self): return '1'\n"
    )
    assert main(["check", "my_env:MyEnv"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  oracle_move wins" in out
    assert "1 rule broken" in out


def test_check_shows_an_authors_exception_once_with_its_line(capsys, beside):
    (beside / "crashing.py").write_text(
        "from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv\n"
        "class Crashing(GuessTheNumberEnv):\n"
        "    def new_game(self, rng): return 1 / 0\n"
    )
    assert main(["check", "crashing:Crashing"]) == 1
    out = capsys.readouterr().out
    assert out.count("ZeroDivisionError") == 1
    assert "crashing.py, line 3" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "llm_gym/TextGam-v0"], "did you mean llm_gym/TextGame-v0?"),
        (["play", "llm_gym/TextGame-v0", "--set", "rooms"], "--set"),
        (["play", "llm_gym/TextGame-v0", "--set", "=4"], "--set must be NAME=VALUE"),
        (["play", "llm_gym/TextGame-v0", "--set", "rooms=1"], "rooms"),
        (["play", "llm_gym/TextGame-v0", "--set", "x=4"], "'x'; it has action_format,"),
        (["list", "MountainCar"], "try llm-gym list --all MountainCar"),
        (["list", "Chess", "--all"], "'Chess'"),
        (["play", "llm_gym/TextGame-v0", "--seed", "-1"], "--seed"),
        (["play", "llm_gym/TextGame-v0", "--sead", "1"], "did you mean --seed?"),
        (["eval", ECHO, "--endpoint", "http://x", "--model", "m", "--top-p", "2"], "--top-p"),
        (
            ["eval", ECHO, "--endpoint", "http://x", "--model", "m", "--constrained"],
            "--constrained",
        ),
        (["eval", ECHO, "--endpoint", "http://x", "--model", "m", "--workers", "2"], "--workers"),
        (["eval", ECHO, "--model", "m", "--body", "top_k=3"], "--body needs --endpoint"),
        (["--verison"], "did you mean --version?"),
        (["view", "x", "y", "--lmit", "3"], "--limit?); see llm-gym view --help"),
        (["check", "sandbox", "--isolation", "landlok"], "did you mean landlock?"),
        (["plai"], "did you mean play?"),
        (["play", "llm_gym/TextGame-v0", "--set", "rooms=many"], "rooms"),
        (["play", "llm_gym/TextGame-v0", "--set", "shaping=yes"], "shaping"),
        (["play", "llm_gym/TextGame-v0", "--set", "rules=loud"], "got 'loud'"),
        (["play", "Pendulum-v1", "--player", "oracle"], "Pendulum-v1 has no oracle player"),
        (["eval", ECHO, "--endpoint", "foo", "--model", "m"], "--endpoint must be like http"),
        (["eval", "--suite", "Nothing", "--endpoint", "http://x", "--model", "m"], "llm-gym list"),
        (["play", ECHO, "--set", "strict=None"], "got None"),
        (["eval", ECHO, "--model", "m/n", "--engine", "vlm"], "did you mean 'vllm'?"),
        (["eval", ECHO, "--model", "tests"], "config.json"),
        (["eval", "--model", "tests"], "no run in the folder 'tests'"),
        (["train", "--smoke"], "name what to train"),
        (["train", ECHO, "--model", "tests"], "config.json"),
        (["check", "nowhere:Env"], "cannot import nowhere"),
        (["check", "llm_gym.envs:Nothing"], "module llm_gym.envs has no environment"),
        (["play", "x", "--import", "nowhere"], "cannot import nowhere"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(arguments, message, capsys):
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("check coin", "coin:Coin"),
        ("play coin.py", "coin:Coin"),
        ("check coins:Coin", "did you mean coin?"),
        ("eval coin:Coin", "--endpoint URL"),
        ("eval run", "--model run"),
    ],
)
def test_files_of_the_current_folder_are_suggested(arguments, meant, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("coin.py").write_text("class Helper: ...\nclass Coin: ...\n")
    Path("run").mkdir()
    Path("run/config.json").write_text("{}")
    assert meant in refused(capsys, *arguments.split())


def test_an_unknown_command_and_none_list_all_commands(capsys):
    assert main(["improve"]) == 2
    error = capsys.readouterr().err
    for name in ("list", "play", "check", "eval", "train"):
        assert f" {name}" in error
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 0
    assert "play an environment in the terminal" in capsys.readouterr().out


def test_other_packages_add_commands_that_load_only_when_called(monkeypatch, capsys):
    entry = importlib.metadata.EntryPoint("greet", "tests_greeting:main", cli.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet" in capsys.readouterr().out
    assert "tests_greeting" not in sys.modules
    module = type(sys)("tests_greeting")
    module.main = lambda argv: len(argv)
    monkeypatch.setitem(sys.modules, "tests_greeting", module)
    assert main(["greet", "a", "b", "c"]) == 3


def test_the_console_script_is_installed_and_knows_its_version():
    script = Path(sys.executable).parent / "llm-gym"
    out = subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
    assert out == f"llm-gym {llm_gym.__version__}\n"


RUN_ALL = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))
from llm_gym.cli import main
for arguments in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
    print(json.dumps([code or 0, out.getvalue(), err.getvalue(), list(sys.modules)]))
"""
TRAINER = ["torch", "tyro", "pydantic", "transformers", "yaml", "rich", "tensordict", "torchrl"]


def run_all(commands, hidden=()):
    """Run commands, one after another, in a process that cannot import what is ``hidden``."""
    done = run_python(RUN_ALL, json.dumps(hidden), json.dumps(list(commands)))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_core_alone_answers_without_the_trainer(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    table = [
        (["train", "--help"], 0, "--help-settings"),
        (["eval", "--help"], 0, "LLM_GYM_API_KEY"),
        (["resume", "--help"], 0, "--trust"),
        (["export", "--help"], 0, "verifiers"),
        (["play", "--model", "x", "--help"], 0, "--temperature"),
        (["train", "llm_gym/Ecko-v0"], 2, ECHO),
        (["eval", "llm_gym/Ecko-v0", "--model", "x"], 2, ECHO),
        (["eval", ECHO, "--model", "x", "--episods", "3"], 2, "--episodes"),
        (["resume", "runs/nothing"], 2, "runs/nothing"),
        (["eval", ECHO, "--model", "./runs/nothing"], 2, "./runs/nothing"),
        (["train", ECHO], 2, install_command("train")),
        (["eval", ECHO, "--model", "nofolder"], 2, "'nofolder'"),
        (["eval", ECHO, "--model", str(tmp_path)], 2, "--endpoint"),
        (["play", ECHO, "--model", str(tmp_path)], 2, "llm-gym play --model needs"),
    ]
    ends = run_all((row[0] for row in table), TRAINER)
    for (arguments, code, expected), (ended, out, err, _) in zip(table, ends, strict=True):
        assert ended == code, (arguments, err)
        assert expected in (err if code else out), arguments
        assert code == 0 or err.count("\n") == 1, arguments


def test_wrong_settings_are_refused_without_importing_torch(tmp_path):
    pytest.importorskip("pydantic")
    (tmp_path / "warm-start").mkdir()
    (tmp_path / "config.json").write_text('{"model": {"trust_remote_code": true}}')
    used = tmp_path / "used"
    (used / "checkpoints/iteration-000001").mkdir(parents=True)
    (used / "metrics.jsonl").write_text('{"iteration": 1}\n')
    recipe = ["train", "text-game-easy"]
    commands = {
        "--training.learning-rate": [*recipe, "--training.lerning-rate", "1"],
        "training.learning_rate": [*recipe, "--training.learning-rate", "-1"],
        "'reinforce_plus_plus'": [*recipe, "--training.adv-estimator", "reinforce++"],
        "training.kl": [*recipe, "--training.kl", "los"],
        "'nofolder'": ["train", ECHO, "--model", "nofolder"],
        "text-game-easy": ["train", "text-game-eas"],
        "--trust": ["resume", str(tmp_path)],
        "training.mini_batch_size": ["train", ECHO, "--training.mini-batch-size", "1000"],
        "ray.staleness": [*recipe, "--ray.staleness", "1"],
        "already holds": ["train", ECHO, "--out", str(used)],
    }
    for word, end in zip(commands, run_all(commands.values()), strict=True):
        code, _, err, imported = end
        assert (code, word in err, "torch" in imported) == (2, True, False), err


NO_READER = {"asyncio", "llm_gym.core.env", "llm_gym.reading", "llm_gym.wrappers", "pydantic"}
REFUSED = {"llm_gym.wrappers", "torch", "typeguard"}
LIGHT = {
    ("--help",): NO_READER,
    ("list",): NO_READER,
    ("view", "--help"): NO_READER,
    ("train", "--help"): NO_READER,
    ("resume", "no-such-run"): NO_READER,
    ("train", ECHO, "--nosuch", "1"): {"llm_gym.core.env", "llm_gym.wrappers", "tyro", "torch"},
    ("train", ECHO, "--training.gamma", "2"): REFUSED,
    ("train", ECHO, "--training.batch-size", "3", "--training.group-size", "2"): REFUSED,
    ("train", ECHO, "--model", "./no-such-model"): REFUSED,
}
"""A command that does no work → what it does not import; each goes on in the process before it."""


def test_a_command_that_does_no_work_imports_little():
    pytest.importorskip("pydantic")
    for (arguments, heavy), end in zip(LIGHT.items(), run_all(LIGHT), strict=True):
        assert not heavy & set(end[3]), arguments


STEERING = "\x1b]0;evil\x07\x1b[2J\u202e\x9b1m\r"


def test_control_characters_are_not_printed(capsys):
    say(STEERING)
    say(STEERING, error=True)
    for text in capsys.readouterr():
        assert not set(text.rstrip("\n")) & set(STEERING) - set("]0;evil[2J1m")


def test_every_command_prints_through_say():
    # It escapes control characters; ``_progress`` prints only its own words.
    rooms = [ROOT / "llm_gym/cli", ROOT / "agents/llm_gym_agents/commands"]
    for path in (path for room in rooms for path in room.glob("*.py")):
        text = path.read_text().replace("sys.stderr.write(text if ended < episodes", "")
        if path.name != "terminal_text.py":
            assert not re.search(r"sys\.(stdout|stderr)\.write|(?<!\.)\bprint\(", text), path


def test_help_and_arrow_keys_cost_no_turn(monkeypatch, capsys):
    typed = iter(["?", "help", "", "\x1b[C", "\x1b[A\x1b[D", "\x01", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    taken = []
    monkeypatch.setattr("llm_gym.envs.micro.echo.EchoEnv.apply", lambda self, move: taken.append(1))
    assert main(["play", ECHO, "--seed", "0"]) == 0
    assert not taken
    assert "Goodbye." in capsys.readouterr().out


def test_arrow_keys_edit_the_line_and_recall_the_last_one():
    pytest.importorskip("readline")
    terminal, end = pytest.importorskip("pty").openpty()
    command = [sys.executable, "-m", "llm_gym", "play", GUESS, "--seed", "0"]
    child = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=ROOT)
    os.close(end)
    screen = b""
    for typed in (b"0\x1b[D1\r", b"\x1b[A\r", b"quit\r"):  # left, then up
        while not screen.endswith(b"> "):
            screen += os.read(terminal, 1024)
        os.write(terminal, typed)
        screen += os.read(terminal, 1)
    with suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 1024):
            screen += part
    os.close(terminal)
    assert child.wait(60) == 0
    assert screen.count(b"than 10.") == 2, screen


@pytest.mark.parametrize(
    ("env_id", "home"), [("MiniGrid-Nope-5x5-v0", "minigrid"), ("ALE/Nope-v5", "ale_py")]
)
def test_an_id_of_a_known_package_names_it(env_id, home, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, home, raising=False)
    assert home in refused(capsys, "play", env_id)


def test_check_lists_installed_packages_and_install_commands(capsys, monkeypatch):
    packages = ["gymnasium>=1.1", "torch>=2; extra == 'train'", "nowhere>=1; extra == 'vllm'"]
    packages += ["far>=1; sys_platform == 'win32' and extra == 'serve'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: packages)
    real = importlib.metadata.version

    def version(name):
        return "2.13.0" if name == "torch" else real(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "ok    transformers (torch 2.13.0)" in out
    assert "[vllm]" in out
    assert "far" not in out
    assert "sandbox" in out


ZSH = "autoload -U bashcompinit && bashcompinit; setopt ksharrays; complete() { :; }"
"""What zsh does before it calls a function that was written for bash."""


@pytest.mark.parametrize(("shell", "before"), [("bash", ""), ("zsh", ZSH)])
def test_completion_offers_commands_flags_and_ids(capsys, shell, before):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    assert main(["--completion"]) == 0
    script = capsys.readouterr().out
    template = "COMP_WORDS=(llm-gym {}); COMP_CWORD={}; _llm_gym; echo ${{COMPREPLY[*]}}"
    offers = {"pl": "play", "check --iso": "--isolation", "play llm_gym/Ec": ECHO}
    for words, offered in offers.items():
        line = template.format(words, len(words.split()))
        command = [shell, "-c", f"{before}\n{script}\n{line}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = done.stdout.split()
        if shell == "zsh":  # which leaves out by itself what does not begin like the word
            found = [each for each in found if each.startswith(words.split()[-1])]
        assert found == [offered]

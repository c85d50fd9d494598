"""Environments named on the command line: found, played, and their errors."""

import sys

import gymnasium as gym
import pytest

from llm_gym.cli import TRACEBACK, main
from tests.cli.errors import refused

MODULE = '''
import gymnasium as gym
from gymnasium import spaces
from llm_gym import AnyText, BaseEnvironment, TextEnv, win


class Corridor(gym.Env):
    """Walk to the right."""

    def __init__(self, length=3):
        self.length = length
        self.action_space, self.observation_space = spaces.Discrete(2), spaces.Discrete(length)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        done = self.at == self.length - 1
        return self.at, float(done), done, False, {}


def long_corridor():
    return Corridor(6)


class Door(BaseEnvironment):
    def reset(self):
        return "Shut."

    def get_state_description(self):
        return "Shut."

    def step(self, action):
        return "Open.", 1.0, True, {}


class Hello(gym.Env):
    observation_space = action_space = AnyText(99)

    def reset(self, *, seed=None, options=None):
        return "Say it.", {}

    def step(self, action):
        return "", 1.0, action == "hello", False, {}


class Coin(TextEnv):
    max_turns = 2

    def new_game(self, rng): pass
    def rules_text(self): return "Call it."
    def example_moves(self): return ["heads", "tails"]
    def describe(self): return "It lands."
    def apply(self, move): return win("Right.")


class BreaksInStep(Corridor):
    def step(self, action):
        raise RuntimeError("the simulator lost its licence")


class ExitsInStep(Corridor):
    def step(self, action):
        raise SystemExit("the window was closed")


class ExitsWhenBuilt(Corridor):
    def __init__(self):
        raise SystemExit(7)


class BreaksInReset(Corridor):
    def reset(self, *, seed=None, options=None):
        return {}["map"]


class BreaksWhenBuilt(Corridor):
    def __init__(self):
        raise ValueError("the map file is not there")


class ForgetsSeeds(Corridor):
    def reset(self):
        return 0, {}


class ReturnsOne(Corridor):
    def reset(self, *, seed=None, options=None):
        return 0


class ReturnsFour(Corridor):
    def step(self, action):
        return 0, 0.0, True, {}


class NoEnvironment:
    pass


gym.register("mine/Door-v0", entry_point=Door)
gym.register("mine/Gone-v0", entry_point="mine_to_play:Gone")
gym.register("mine/NeedsMore-v0", entry_point="nowhere_at_all:Game")
'''


def line_of(words):
    """Return the place of ``words`` in MODULE."""
    line = MODULE[: MODULE.index(words)].count("\n") + 1
    return f"mine_to_play.py, line {line}"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine_to_play.py").write_text(MODULE)
    (tmp_path / "bad_syntax.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "bad_import.py").write_text("raise RuntimeError('set MY_HOME first')\n")
    (tmp_path / "bad_exit.py").write_text("import sys\nsys.exit('not on this machine')\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield "mine_to_play"
    sys.path[:] = path
    for name in ("mine_to_play", "bad_syntax", "bad_import", "bad_exit"):
        sys.modules.pop(name, None)
    for env_id in [env_id for env_id in gym.registry if env_id.startswith("mine/")]:
        del gym.registry[env_id]


@pytest.mark.parametrize("name", ["Corridor", "long_corridor", "Door"])
def test_a_class_or_function_is_played_without_an_id(name, mine, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda _: "1")
    assert main(["play", f"{mine}:{name}", "--seed", "0"]) == 0


@pytest.mark.parametrize(
    ("name", "typed", "expected"),
    [
        ("mine_to_play:Hello", ["hm", "hello"], "after 2 turns, return 2]"),
        # As a file, too; ? lists examples of moves.
        ("mine_to_play.py:Coin", ["?", "heads"], "for example: heads  tails"),
        ("mine_to_play:Coin", ["heads"], "[won after 1 turn, return 1]"),
    ],
)
def test_a_game_is_played_by_hand(name, typed, expected, mine, monkeypatch, capsys):
    lines = iter(typed)
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    assert main(["play", name]) == 0
    assert expected in capsys.readouterr().out


def test_a_missing_player_is_reported_before_the_rules(mine, capsys):
    assert main(["play", f"{mine}:Coin", "--player", "solver"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{mine}:Coin has no solver player" in printed.err


def test_settings_reach_the_class_and_as_text(mine, capsys):
    tagged = ["--set", "length=9", "--set", "action_format=tag", "--player", "random"]
    assert main(["play", f"{mine}:Corridor", *tagged, "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert "<action>" in out
    assert int(out.rpartition("after ")[2].split()[0]) >= 8, "a corridor of nine takes as long"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("BreaksInStep", f"RuntimeError: the simulator lost its licence ({line_of('licence')}, in"),
        ("ExitsInStep", f"SystemExit: the window was closed ({line_of('the window')}, in step)"),
        ("ExitsWhenBuilt", f"SystemExit: 7 ({line_of('SystemExit(7)')}, in __init__)"),
        ("BreaksInReset", f"KeyError: 'map' ({line_of('{}[')}, in reset)"),
        ("BreaksWhenBuilt", f"ValueError: the map file is not there ({line_of('map file')}, in __"),
        ("ForgetsSeeds", "llm-gym check mine_to_play:ForgetsSeeds says what an environment must"),
        ("ReturnsOne", "ReturnsOne.reset must return (observation, info), got one int"),
        ("ReturnsFour", "llm-gym check mine_to_play:ReturnsFour says what an environment must do"),
        ("NoEnvironment", "mine_to_play:NoEnvironment is no environment: it must derive from"),
        ("Coridor", "has no environment 'Coridor'; did you mean mine_to_play:Corridor?"),
        ("gym", "has no environment 'gym'; it has Corridor, Hello, Coin,"),
        ("mine/Door-v0", "it is no gymnasium.Env; named by its class, as module:Class, it would"),
        ("mine/Gone-v0", "module 'mine_to_play' has no attribute 'Gone'"),
        ("mine/NeedsMore-v0", "cannot build mine_to_play:mine/NeedsMore-v0: No module named 'nowh"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # Gymnasium's own, about the same mistakes
def test_an_error_of_an_environment_is_one_sentence_with_the_line(name, message, mine, capsys):
    command = ["play", f"{mine}:{name}", "--player", "random", "--seed", "0"]
    assert message in refused(capsys, *command)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("bad_syntax", "SyntaxError: invalid syntax (bad_syntax.py, line 2)"),
        ("bad_import", "RuntimeError: set MY_HOME first (bad_import.py, line 1, in <module>)"),
        ("bad_exit", "cannot import bad_exit: SystemExit: not on this machine"),
        ("envs/mine.py", "got 'envs/mine.py'; if it lies here, write envs.mine"),
    ],
)
@pytest.mark.parametrize("how", ["before the name", "--import"])
def test_a_module_that_cannot_be_imported_is_one_sentence(module, message, how, mine, capsys):
    named = [f"{module}:X"] if how == "before the name" else ["CartPole-v1", "--import", module]
    assert message in refused(capsys, "play", *named)


def test_the_traceback_is_shown_on_request(mine, monkeypatch, capsys):
    monkeypatch.setenv(TRACEBACK, "1")
    assert main(["play", f"{mine}:BreaksWhenBuilt"]) == 2
    error = capsys.readouterr().err
    assert 'raise ValueError("the map file is not there")' in error
    assert error.count("cannot build mine_to_play:BreaksWhenBuilt") == 1


def test_check_lists_once_the_checks_that_do_not_apply(mine, capsys):
    assert main(["check", f"{mine}:Corridor"]) == 0
    assert capsys.readouterr().out.count("needs a TextEnv") == 1


BROKEN = """
import gymnasium as gym
from llm_gym import AnyText


class Riddle(gym.Env):
    action_space, observation_space = AnyText(9, examples=["a", "b"]), AnyText(99)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Say a.", {}

    def step(self, action):
        return "Right.", float(action == "a"), action == "a", False, {}


class Four(Riddle):
    def step(self, action):
        return "Right.", 1.0, True, {}


class Word(Riddle):
    def step(self, action):
        return "Right.", "one", True, False, {}


class Five(Riddle):
    def step(self, action):
        return 5, 1.0, True, False, {}


class Alone(Riddle):
    def reset(self, *, seed=None, options=None):
        return "Say a."


class Fails(Riddle):
    def step(self, action):
        one, two = [action]


class Mute(Riddle):
    action_space = AnyText(9)


class Digits(Riddle):
    observation_space = gym.spaces.Text(99)
"""
SAID = {
    "Four": "step must return 5 values: not enough values to unpack (expected 5, got 4)",
    "Word": "the reward must be a number, got 'one'",
    "Five": "episodes need text observations, broken:Five gave int; put AsText around it",
    "Alone": "reset must return 2 values",
    "Fails": "not enough values to unpack (expected 2, got 1) (broken.py, line",
}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "broken"
    sys.modules.pop("broken", None)


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("command", ["play", "train"])
@pytest.mark.filterwarnings("ignore")  # Gymnasium's own, about the same mistakes
def test_an_answer_of_the_wrong_form_is_one_sentence(command, name, broken, capsys):
    how = ["--player", "random"]
    if command == "train":
        pytest.importorskip("torchrl")
        how = ["--smoke", "--out", "run"]
    assert main([command, f"{broken}:{name}", *how]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("llm-gym: ")
    assert SAID[name] in error


@pytest.mark.parametrize("name", ["Four", "Word", "Alone"])
@pytest.mark.filterwarnings("ignore")
def test_check_promises_nothing_of_an_environment_that_cannot_be_played(name, broken, capsys):
    assert main(["check", f"{broken}:{name}"]) == 1
    said = capsys.readouterr().out
    assert "\nok " not in said
    assert "1 rule broken, 15 not checked" in said


def test_check_names_the_space_that_takes_any_text(broken, capsys):
    assert main(["check", f"{broken}:Digits"]) == 1
    said = capsys.readouterr().out
    assert said.count("takes only letters and digits by default; use llm_gym.AnyText") == 2
    assert "the reply '' (empty) led outside the observation space" in said


def test_the_random_player_says_examples(broken, capsys):
    assert main(["play", f"{broken}:Riddle", "--player", "random", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "> a" in said
    assert main(["play", f"{broken}:Riddle", "--player", "random", "--seed", "1"]) == 0
    assert capsys.readouterr().out == said
    for name, player in (("Mute", "random"), ("Riddle", "oracle")):
        assert main(["play", f"{broken}:{name}", "--player", player]) == 2
        assert f"{name} has no {player} player: its class" in capsys.readouterr().err

"""What a step of each game costs: functions entered, and characters that patterns are given.

No clock: a step does the same work on every machine. ``work_per_step.json`` holds what was counted;
a step may cost a fifth more. After a change that is worth its price, or makes a step cheaper::

    python -m tests.reading.test_work_per_step
"""

import json
import re
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from tests.envs.playing import start_game
from tests.matrix import FIRST_OF_CLASS
from tests.reading.test_linear import Counted
from tests.work import steps_of

FILE = Path(__file__).with_name("work_per_step.json")
SEEDS = 3
REPLIES = {"refused": "I do not know.", "no word": "xyzzy", "three numbers": "1 1 1"}
KINDS = ("usable", *REPLIES)
RUNS_CODE = {"llm_gym/MathPython-v0"}
"""Games whose usable moves wait for another process, which no count is the same of."""


def enter(env, action):
    """Return how many functions a step enters, those of C among them."""
    entered = 0

    def profile(frame, event, argument):
        nonlocal entered
        entered += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        env.step(action)
    finally:
        sys.setprofile(before)
    return entered


def scan(env, action):
    """Return how many characters a step gives to patterns of our modules."""
    with pytest.MonkeyPatch.context() as patch:
        for module in [each for name, each in sys.modules.items() if name.startswith("llm_gym.")]:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, Counted(value))
        Counted.given = 0
        env.step(action)
        return Counted.given


def count(env_id, kind):
    """Return the most functions and characters of first steps, with caches filled before.

    Each time other episodes are played: what a cache has of an observation seen before is no use.
    """
    env, most = gym.make(env_id), {enter: 0, scan: 0}
    for at, measure in enumerate((enter, enter, scan)):
        most[measure] = 0
        for seed in range(SEEDS * at, SEEDS * (at + 1)):
            env.reset(seed=seed)
            action = REPLIES.get(kind) or env.unwrapped.oracle_action()
            most[measure] = max(most[measure], measure(env, action))
    env.close()
    return list(most.values())


def kinds(env_id):
    return KINDS[env_id in RUNS_CODE :]


@pytest.mark.parametrize("env_id", FIRST_OF_CLASS)
def test_a_step_does_no_more_work_than_recorded(env_id):
    for kind, bound in json.loads(FILE.read_text())[env_id].items():
        found = count(env_id, kind)
        most = [1.2 * each + 4 for each in bound]
        assert found[0] <= most[0], f"functions, {kind}"
        assert found[1] <= most[1], f"characters, {kind}"


@pytest.mark.parametrize("name", ["Bandit", "ConnectFour", "FrozenLake", "Sokoban", "Sudoku"])
def test_describing_a_board_again_takes_few_steps(name):
    env = start_game(name)
    env.describe()
    assert steps_of(env.describe) <= 40


if __name__ == "__main__":
    made = {
        env_id: {kind: count(env_id, kind) for kind in kinds(env_id)}
        for env_id in FIRST_OF_CLASS[::-1]
    }
    rows = ",\n".join(f"{json.dumps(env_id)}: {json.dumps(row)}" for env_id, row in made.items())
    FILE.write_text(f"{{\n{rows}\n}}\n")

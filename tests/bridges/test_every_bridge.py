"""What every bridge promises, asked of each: ``make test-bridges``."""

import random
import sys

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import llm_gym  # noqa: F401 - registers the ids
from tests.bridges.each import ROWS, SETTINGS, each_bridge, maker
from tests.bridges.playing import STEPS, check_steps

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_bridge_is_asked():
    assert SETTINGS.keys() == ROWS.keys()
    assert STEPS == 100


@each_bridge
def test_a_hundred_steps_follow_from_the_seed_whatever_others_do(bridge, request):
    said = check_steps(maker(bridge, request))
    assert sum(len(one) == 5 for one in said) == STEPS


def states():
    """All that the process would draw from here on, to be compared."""
    torch = sys.modules.get("torch")
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - the process's own
    return (
        random.getstate(),
        numpy["state"]["key"].tobytes(),
        (numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]),
        None if torch is None else torch.get_rng_state().numpy().tobytes(),
    )


def ask(env, name):
    """Call what an environment may have; whether it can answer is not the question here."""
    try:
        getattr(env, name)()
    except (AttributeError, NotImplementedError):
        return


CALLS = ("random_action", "oracle_action", "legal_actions", "instance_id", "render")


@each_bridge
def test_nothing_that_is_asked_of_it_touches_the_programs_randomness(bridge, request):
    make = maker(bridge, request)
    make().close()  # what a suite draws while it is imported is another question
    rng = np.random.default_rng(5)
    random.seed(5)
    before = states()
    env = make()
    assert states() == before, "making it"
    over = True
    for turn in range(20):
        if over:
            options = {"split": "train"} if env.has_splits and turn % 2 else None
            env.reset(seed=int(rng.integers(1000)), options=options)
            assert states() == before, "reset"
        for name in rng.permutation(CALLS)[:2]:
            ask(env, str(name))
            assert states() == before, name
        action = env.random_action() if rng.random() < 0.7 else str(rng.bytes(8))
        _, _, terminated, truncated, _ = env.step(action)
        assert states() == before, "step"
        over = terminated or truncated
    env.close()
    assert states() == before, "close"


@each_bridge
def test_a_closed_environment_says_so_and_begins_again(bridge, request):
    env = maker(bridge, request)()
    with pytest.raises(ResetNeeded, match=r"has not begun; call reset\(\)"):
        env.step("look")
    first = env.reset(seed=4)
    env.close()
    env.close()
    with pytest.raises(ResetNeeded, match=r"has not begun; call reset\(\)"):
        env.step("look")
    assert env.reset(seed=4) == first
    env.close()

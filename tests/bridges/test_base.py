"""What every bridge promises, on a scripted game and on each installed suite."""

import random
import sys

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from llm_gym.bridges.base import BridgeEnv, BridgeStep
from llm_gym.core.errors import ActionTypeError, ConfigError, WorkerError
from llm_gym.core.outcome import StopReason
from llm_gym.core.splits import split_of
from llm_gym.evaluate.checker import HOSTILE, check_text_env
from tests.bridges.each import (
    ANY_TEXT,
    CHECKED,
    ROWS,
    SETTINGS,
    STEPPED,
    WRONG,
    check_steps,
    each_bridge,
    maker,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Rude(BridgeEnv):
    """Prints, and raises at the move "raise"."""

    has_splits = False
    breaks_at = ""

    def begin(self, seed):
        sys.stdout.write("Welcome to the game!\n")
        if self.breaks_at == "begin":
            raise KeyError("no such level")
        return "Hello."

    def play(self, text):
        sys.stdout.write("debug: step\n")
        if text == "raise":
            raise ZeroDivisionError("on demand")
        return BridgeStep(
            f"You said {text}.", stop=StopReason.WON if text == "win" else StopReason.PLAYING
        )


class Costly(Rude):
    """Ends after three moves, with a loss that is paid."""

    def begin(self, seed):
        self.left = 3
        return "Hello."

    def play(self, text):
        self.left -= 1
        over = self.left == 0
        return BridgeStep("Go on.", -1.0 * over, StopReason.LOST if over else StopReason.PLAYING)


class Sorted(Rude):
    """Has an instance for every seed."""

    has_splits = True

    def begin(self, seed):
        self.instance = {"seed": seed, "set": {1, 2}, "row": np.arange(2)}
        return f"Hello, {seed}."


def test_splits_are_disjoint_and_an_empty_one_is_refused():
    env = Sorted()
    seen = {
        split: {env.reset(seed=seed, options={"split": split})[0] for seed in range(30)}
        for split in ("train", "dev", "test")
    }
    assert all(len(texts) == 30 for texts in seen.values())
    assert len(set.union(*seen.values())) == 90
    env.reset(seed=1)
    first, again = env.instance_id(), env.reset(seed=1) and env.instance_id()
    assert first == again
    env.begin = lambda seed: Sorted.begin(env, 1)
    split = next(name for name in seen if name != split_of(first))
    with pytest.raises(ConfigError, match=f"no {split} instance"):
        env.reset(options={"split": split})


def test_giving_up_costs_as_much_as_losing():
    env = Costly(action_format="tag", max_invalid=2)
    env.reset(seed=0)
    env.step("no tag")
    _, reward, terminated, truncated, info = env.step("no tag")
    assert (reward, terminated, truncated) == (-1.0, False, True)
    assert info["reward_terms"] == {"reward": 0.0, "given_up": -1.0}


def test_a_failed_start_raises_and_the_next_reset_works():
    env = Rude()
    env.breaks_at = "begin"
    with pytest.raises(WorkerError, match="no such level"):
        env.reset(seed=0)
    env.breaks_at = ""
    assert env.reset(seed=0)[0] == "Hello."


def test_prints_are_swallowed_and_an_exception_is_an_unusable_reply(capsys):
    env = Rude(max_invalid=2)
    env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step("raise")
    assert (text, reward) == ("The game could not use that reply.", 0.0)
    assert (terminated, truncated, info["valid_action"]) == (False, False, False)
    assert env.step("go on")[0] == "You said go on."
    assert env.step("raise")[3]
    assert capsys.readouterr() == ("", "")


def test_wrong_calls_of_reset_and_step_raise():
    env = Rude()
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("x")
    env.reset(seed=0)
    with pytest.raises(ActionTypeError, match="str"):
        env.step(3)
    assert env.step("win")[4]["success"]
    with pytest.raises(ResetNeeded, match=r"is over \(won\)"):
        env.step("x")
    with pytest.raises(ConfigError, match="options"):
        env.reset(options={"level": 3})
    with pytest.raises(ConfigError, match="has no splits"):
        env.reset(options={"split": "train"})


def test_every_bridge_is_tested():
    assert SETTINGS.keys() == ROWS.keys()


@each_bridge
def test_seeds_determine_a_hundred_steps_of_every_bridge(bridge, request):
    check_steps(maker(bridge, request))


@pytest.mark.parametrize(("bridge", "settings"), STEPPED)
def test_seeds_determine_a_hundred_steps_of_more_games(bridge, settings, request):
    make = maker(bridge, request)
    check_steps(lambda: make(**settings))


@pytest.mark.parametrize(("bridge", "settings"), CHECKED)
def test_games_pass_the_checker(bridge, settings, request):
    env = maker(bridge, request)(**settings)
    if bridge == "PettingZoo":
        check_env(env, skip_render_check=True)
    check_text_env(env)


@pytest.mark.parametrize(("bridge", "settings"), ANY_TEXT)
def test_no_text_raises_or_ends_the_process(bridge, settings, request):
    env = maker(bridge, request)(**settings)
    for text in (*HOSTILE.values(), "quit", "restart", "x\x00y"):
        env.reset(seed=0)
        observation, *_, info = env.step(text)
        assert env.observation_space.contains(observation)
    assert not info["success"]


@pytest.mark.parametrize(("bridge", "settings", "message"), WRONG)
def test_wrong_settings_are_refused(bridge, settings, message, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        maker(bridge, request)(**settings)


def states():
    """The state of every global random generator."""
    torch = sys.modules.get("torch")
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - the process's own
    return (
        random.getstate(),
        numpy["state"]["key"].tobytes(),
        (numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]),
        None if torch is None else torch.get_rng_state().numpy().tobytes(),
    )


def ask(env, name):
    """Call a method that an environment may have."""
    try:
        getattr(env, name)()
    except (AttributeError, NotImplementedError):
        return


CALLS = ("random_action", "oracle_action", "legal_actions", "instance_id", "render")


@each_bridge
def test_no_call_changes_the_global_random_state(bridge, request):
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
def test_a_closed_environment_refuses_steps_and_can_be_reset(bridge, request):
    env = maker(bridge, request)()
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("look")
    first = env.reset(seed=4)
    env.close()
    env.close()
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("look")
    assert env.reset(seed=4) == first
    env.close()

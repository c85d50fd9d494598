"""An environment for tests of vector environments, and equality of what they return."""

import multiprocessing
import os
import re
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from llm_gym.core.spaces import AnyText

GUESS = "llm_gym/GuessTheNumber-v0"
MODES = list(AutoresetMode)


def pause(seconds):
    threading.Event().wait(seconds)


class Unreadable:
    """Pickles, but what comes out of the pickle raises."""

    def __reduce__(self):
        return int, ("not a number",)


class Odd(gym.Env):
    """Echoes the action, fails on demand, and fills info with all sorts of things."""

    observation_space = AnyText(2_000_000)
    action_space = AnyText(2_000_000)
    closed = 0

    def __init__(self, prefix="", length=3):
        if prefix == "raise":
            raise ValueError("will not be built")
        if prefix == "exit":
            os._exit(4)
        self.prefix, self.length = prefix, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.options = self.length, options
        return f"{self.prefix}begin {self.np_random.integers(1000)}", self._info()

    def step(self, action):
        command, _, rest = action.partition(" ")
        extra = self.misbehave(command, rest)
        self.left -= 1
        ends, cut = self.left == 0, action == "cut"
        reward = float(self.np_random.integers(5))
        return self.prefix + action, reward, ends and not cut, cut, {**self._info(), **extra}

    def misbehave(self, command, rest):
        if command == "raise":
            raise KeyError(rest)
        if command == "exit":
            os._exit(int(rest))
        if command == "backtrack":  # in C, with the interpreter's lock, for hours
            re.match("(a+)+b", "a" * 60)
        if command == "sleep":
            pause(float(rest))
        if command == "meet":
            seconds, _, folder = rest.partition(" ")
            meet(Path(folder), float(seconds))
        if command == "lock":
            return {"lock": threading.Lock()}
        if command == "unreadable":
            return {"unreadable": Unreadable()}
        return {}

    @property
    def pid(self):
        return os.getpid()

    def _info(self):
        draw = self.np_random.integers
        info = {"left": self.left, "word": "x" * int(draw(4)), "nested": {}}
        if draw(2):
            info["share"] = float(self.np_random.random())
        if draw(2):
            info["nested"] = {"deep": {"flag": bool(draw(2))}, "number": np.float32(draw(9))}
        if draw(2):
            info["array"] = self.np_random.random(3)
        if draw(2):
            info["list"] = [1] * int(draw(3))
        return info

    def close(self):
        Odd.closed += 1
        if self.prefix == "stuck":
            pause(60)


def meet(folder, seconds):
    """Return once two have come here at the same time; raise if the other does not come."""
    (folder / str(os.getpid())).touch()
    for _ in range(int(seconds / 0.01)):
        if len(list(folder.iterdir())) == 2:
            return
        pause(0.01)
    raise TimeoutError("nobody else came")


def assert_same(ours, stock):
    """Equal in type, dtype, shape and value, at every depth."""
    assert type(ours) is type(stock)
    if isinstance(stock, dict):
        assert list(ours) == list(stock)
        for key in stock:
            assert_same(ours[key], stock[key])
    elif isinstance(stock, np.ndarray):
        assert (ours.dtype, ours.shape) == (stock.dtype, stock.shape)
        assert_same(ours.tolist(), stock.tolist())
    elif isinstance(stock, list | tuple):
        assert len(ours) == len(stock)
        for one, other in zip(ours, stock, strict=True):
            assert_same(one, other)
    else:
        assert ours == stock or (ours != ours and stock != stock)  # nan


def assert_same_batch(ours, stock):
    assert ours[0] == list(stock[0])
    assert_same(list(ours[1:]), list(stock[1:]))


def no_process_is_left(but=()):
    """Wait until processes that are ending have ended."""
    for child in set(multiprocessing.active_children()) - set(but):
        child.join(60)
    assert set(multiprocessing.active_children()) <= set(but)

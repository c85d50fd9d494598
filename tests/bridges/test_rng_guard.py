# ruff: noqa: NPY002 - the generators of the whole process are what this is about
"""A suite's random numbers are kept apart from the program's."""

import random
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from llm_gym.bridges import rng_guard
from llm_gym.bridges.base import need_package
from llm_gym.bridges.rng_guard import GlobalRngGuard


def draw():
    """Draw from every generator of the process, one normal number of a pair included."""
    drawn = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]
    if "torch" in sys.modules:
        drawn.append(sys.modules["torch"].rand(1).item())
    return drawn


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(params=["memory", "functions"])
def places(request, monkeypatch):
    """Both ways to save states: copies of memory, and the libraries' functions."""
    if request.param == "functions":
        slow = [
            *rng_guard.python_slots(random._inst, quick=False),
            *rng_guard.numpy_slots(np.random.mtrand._rand, quick=False),
        ]
        monkeypatch.setattr(rng_guard, "_find_slots", lambda bits: slow)
    return request.param


def test_the_fast_path_is_available_here():
    assert len(rng_guard.python_slots(random.Random(0))) == 2
    assert len(rng_guard.numpy_slots(np.random.RandomState(0))) == 2


def test_a_guarded_block_changes_no_generator_and_prints_nothing(places, capsys):
    seed_all(3)
    undisturbed = [draw() for _ in range(5)]
    guard = GlobalRngGuard()
    seed_all(3)
    disturbed = []
    for _ in range(5):
        disturbed.append(draw())
        with suppress(ZeroDivisionError), guard:
            draw()
            seed_all(99)
            np.random.randn()
            sys.stdout.write("Generated puzzle in 1 attempts\n")
            raise ZeroDivisionError
    assert disturbed == undisturbed
    sys.stdout.write("printed\n")
    assert capsys.readouterr().out == "printed\n"


def test_a_guards_draws_depend_on_its_seed_only(places):
    def episode(guard, between):
        guard.seed(11)
        drawn = []
        for _ in range(4):
            with guard:
                drawn.append(draw())
            between()
        return drawn

    alone = episode(GlobalRngGuard(), lambda: None)
    other = GlobalRngGuard()

    def disturb():
        with other:
            seed_all(5)
            draw()
        draw()

    assert episode(GlobalRngGuard(), disturb) == alone
    assert alone[0] != alone[1]


def test_guards_can_be_nested(places):
    outer, inner = GlobalRngGuard(), GlobalRngGuard()
    outer.seed(1)
    with outer:
        first = draw()
        with inner:
            draw()
        second = draw()
    outer.seed(1)
    with outer:
        assert [first, second] == [draw(), draw()]


def test_importing_a_suite_changes_no_generator_and_prints_nothing(
    places, tmp_path, monkeypatch, capsys
):
    lines = ["import random", "import numpy as np", "random.seed(4)", "np.random.seed(4)"]
    lines += ["np.random.randn()", "print('Welcome!')"]
    (tmp_path / "a_drawing_suite.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    seed_all(6)
    expected = draw()
    seed_all(6)
    need_package("gem", "a_drawing_suite")
    assert draw() == expected
    assert capsys.readouterr().out == ""
    del sys.modules["a_drawing_suite"]


def test_a_new_bit_generator_of_numpys_is_found():
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.MT19937(4))
        np.random.seed(4)
        expected = np.random.rand(3).tolist()
        np.random.seed(4)
        with GlobalRngGuard():
            np.random.rand(100)
        assert np.random.rand(3).tolist() == expected
    finally:
        np.random.set_bit_generator(before)


def test_threads_wait_for_each_other():
    results = {}

    def play(seed):
        guard = GlobalRngGuard()
        guard.seed(seed)
        drawn = []
        for _ in range(200):
            with guard:
                drawn.append(draw())
        results[seed] = drawn

    threads = [threading.Thread(target=play, args=(seed,)) for seed in (0, 1, 0)]
    for thread in threads[:2]:
        thread.start()
    for thread in threads[:2]:
        thread.join()
    together = dict(results)
    play(0)
    assert results[0] == together[0]

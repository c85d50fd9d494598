"""Progress is live on a terminal, plain lines elsewhere, and never in the way."""

import io

import pytest
from rich.console import Console

from llm_gym_agents.commands.run import TrainingProgress

ROW = {
    "eval/success": 0.25,
    "episode/success": 0.5,
    "reward/mean": 0.125,
    "policy/kl": 0.0123,
    "policy/entropy": 1.5,
    "value/explained_variance": 0.75,
    "time/tokens_per_s": 12345.6,
    "loss/policy": 1.0,
}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def shown(terminal, width=100):
    """Return a progress, its clock, and a function that gives what was written so far."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    clock = Clock()
    return TrainingProgress(console, get_time=clock), clock, out.getvalue


def test_without_a_terminal_each_iteration_is_one_plain_line():
    progress, clock, written = shown(terminal=False, width=40)
    progress.begin(4)
    assert written() == ""
    clock.now = 30.0
    progress.show(ROW)
    clock.now = 60.0
    progress.show({"episode/success": 0.75})
    progress.stop()
    assert written().splitlines() == [
        "iteration 1/4  held-out success 25.0%  success 50.0%  return 0.125  KL 0.0123  "
        "entropy 1.500  explained variance 0.75  tokens/s 12,346  ? left",
        "iteration 2/4  success 75.0%  0:01:00 left",  # nothing else was measured in it
    ]


def test_on_a_terminal_everything_is_in_view_and_the_cursor_comes_back():
    progress, clock, written = shown(terminal=True)
    progress.begin(40)
    clock.now = 30.0
    progress.show(ROW)
    clock.now = 60.0
    progress.show({"episode/success": 1.0})
    progress.stop()
    text = written()
    for part in ("iteration", "2/40", "0:01:00", "0:19:00", "held-out success", "25.0%", "100.0%",
                 "explained variance", "12,346"):  # fmt: skip
        assert part in text, part
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_resumed_run_counts_on_and_times_only_its_own_iterations():
    progress, clock, written = shown(terminal=False)
    progress.begin(10, done=6)
    for clock.now in (5.0, 10.0):
        progress.show({})
    assert written().splitlines()[1] == "iteration 8/10  0:00:10 left"


def test_numbers_that_are_not_finite_are_shown_and_do_not_break_the_display():
    for terminal in (False, True):
        progress, _, written = shown(terminal)
        progress.begin(3)
        progress.show({"episode/success": float("nan"), "policy/kl": float("inf")})
        progress.show({"episode/success": 0.5})
        progress.show({"episode/success": 0.5})
        progress.stop()
        assert "nan" in written()
        assert "50.0%" in written()


def test_stopping_twice_or_before_the_start_is_harmless():
    progress, _, written = shown(terminal=True)
    progress.stop()
    progress.begin(1)
    progress.stop()
    before = written()
    progress.stop()
    assert written() == before


def test_an_error_in_training_gives_the_terminal_back():
    progress, _, written = shown(terminal=True)

    def fail():
        with progress:
            progress.begin(3)
            raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        fail()
    assert written().rindex("\x1b[?25h") > written().rindex("\x1b[?25l")

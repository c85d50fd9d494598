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


def shown(terminal, total=4, done=0, width=100):
    """Return a progress, its clock, and a function that gives what was written so far."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    clock = Clock()
    return TrainingProgress(console, total, done, get_time=clock), clock, out.getvalue


def test_without_a_terminal_each_iteration_is_one_plain_line():
    progress, clock, written = shown(terminal=False, width=40)
    with progress:
        assert written() == ""
        clock.now = 30.0
        progress.show(ROW)
        clock.now = 60.0
        progress.show({"episode/success": 0.75})
    assert written().splitlines() == [
        "iteration 1/4  held-out success 25.0%  success 50.0%  return 0.125  KL 0.0123  "
        "entropy 1.500  explained variance 0.75  tokens/s 12,346  ? left",
        "iteration 2/4  success 75.0%  0:01:00 left",  # nothing else was measured in it
    ]


def test_on_a_terminal_a_bar_shows_the_time_left_and_the_cursor_comes_back():
    progress, clock, written = shown(terminal=True, total=40)
    with progress:
        clock.now = 30.0
        progress.show(ROW)
        clock.now = 60.0
        progress.show({"episode/success": 1.0})
    text = written()
    for part in ("iteration 1/40  held-out success 25.0%", "explained variance 0.75",
                 "iteration 2/40  success 100.0%\n", "0:01:00", "0:19:00"):  # fmt: skip
        assert part in text, part
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_resumed_run_counts_on_and_times_only_its_own_iterations():
    progress, clock, written = shown(terminal=False, total=10, done=6)
    for clock.now in (5.0, 10.0):
        progress.show({})
    assert written().splitlines()[1] == "iteration 8/10  0:00:10 left"


def test_numbers_that_are_not_finite_are_shown_and_do_not_break_the_display():
    for terminal in (False, True):
        progress, _, written = shown(terminal, total=3)
        with progress:
            progress.show({"episode/success": float("nan"), "policy/kl": float("inf")})
            progress.show({"episode/success": 0.5})
            progress.show({"episode/success": 0.5})
        assert "nan" in written()
        assert "50.0%" in written()


def test_an_error_in_training_gives_the_terminal_back():
    progress, _, written = shown(terminal=True)
    with pytest.raises(ValueError, match="out of memory"), progress:
        raise ValueError("out of memory")
    assert written().rindex("\x1b[?25h") > written().rindex("\x1b[?25l")

"""What ``llm-gym train`` prints during a run and at its end."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.text import clip, shown
from llm_gym.episodes import Trajectory, read_episodes
from llm_gym.evaluate.scores import published
from llm_gym_agents.commands.plan import next_commands, resume_command
from llm_gym_agents.rollouts.evaluation import Evaluation, evaluation_metrics
from llm_gym_agents.rollouts.mix import by_env
from llm_gym_agents.run import metrics
from llm_gym_agents.run.diagnostics import final_diagnosis
from llm_gym_agents.run.files import write_atomically
from llm_gym_agents.trainer.ppo_trainer import PPOTrainer
from llm_gym_agents.trainer.run_folder import FINAL, WARM_START, imitated

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COMPARED = 3
"""Number of held-out episodes that are shown before and after training."""
_PLAYERS = ("random", "reflex", "solver")
_ENDS, _LONGEST = 10, 500
"""Turns shown from each end of an episode, and maximum characters of a text."""


def say(console: Console, text: str) -> None:
    """Print any text, including a model's, without cutting long lines."""
    console.print(shown(text, keep="\n"), markup=False, highlight=False, soft_wrap=True)


class RunReport:
    """Prints the report of one run; ``judged`` says whether it is long enough for a diagnosis.

    If ``strict``, advice becomes an error that ends the run.
    """

    def __init__(
        self, trainer: PPOTrainer, console: Console, *, strict: bool = False, judged: bool = True
    ) -> None:
        self._trainer, self.console = trainer, console
        self._strict, self._judged = strict, judged
        self._advice: list[str] = []
        self.say = partial(say, console)

    def advise(self, sentence: str) -> None:
        """Print the symptoms that the run's metrics show."""
        self._advice.append(sentence)
        self.say(f"advice: {sentence}")
        if self._strict:
            raise ConfigError(f"the run cannot learn: {sentence}")

    def evaluate_before(self) -> Evaluation:
        """Return the evaluation before the first iteration; a resumed run has saved it."""
        trainer = self._trainer
        records = trainer.folder / "episodes/before.jsonl"
        if trainer.checkpoints.latest() is None or not records.exists():
            before = trainer.evaluate(trainer.schedule.reported, str(records))
        else:
            before = self._recorded(records)
        self.say(f"before: {before}")
        return before

    def evaluate_after(self) -> Evaluation:
        """Print why the run ended, and return the evaluation of the final model."""
        trainer, done = self._trainer, len(self._trainer.metrics_history)
        is_early = done < trainer.config.training.iterations
        if is_early and trainer.early_stop.ended is not None:
            self.say(f"enough after iteration {done}: {trainer.early_stop.ended}")
        if trainer.ended_with_best:
            origin = f"iteration {trainer.iteration}" if trainer.iteration else "the warm start"
            self.say(f"ending with the weights of {origin}, the best")
        records = trainer.folder / "episodes/after.jsonl"
        return trainer.evaluate(trainer.schedule.reported, str(records))

    # --- how it ended --------------------------------------------------------------------

    def on_sigterm(self, before: Evaluation) -> None:
        """Print how to resume, and the progress of the run."""
        self.say(f"told to stop; {self._go_on()}")
        self.say(f"the best weights so far are in {self._trainer.folder / FINAL}")
        records = sorted((self._trainer.folder / "episodes").glob("eval-*.jsonl"))
        self._say_verdict(before, self._recorded(records[-1]) if records else None)

    def _recorded(self, records: Path) -> Evaluation:
        return Evaluation(self._trainer.sampler.env_id, list(read_episodes(records)), 0, 0.0)

    def interrupted(self) -> None:
        """Print how to resume, or that there is no checkpoint yet."""
        if self._is_resumable():
            self.say(f"stopped; {self._go_on()}")
        else:
            self.say("stopped before the first checkpoint; the same command begins again")

    def _is_resumable(self) -> bool:
        warm_start = self._trainer.folder / WARM_START
        return self._trainer.checkpoints.latest() is not None or warm_start.exists()

    def stopped(self, why: str) -> LLMGymError:
        """Return the message for a run that failed, and what it has saved."""
        kept = "nothing was trained yet"
        if self._is_resumable():
            kept = f"what is there is whole; {self._go_on()}"
        return LLMGymError(f"the run in {self._trainer.folder} stopped: {why}; {kept}")

    def finished(self, before: Evaluation, after: Evaluation, title: str) -> None:
        """Print the results, draw the curve, and suggest the next commands."""
        trainer = self._trainer
        self._compare(before, after)
        picture = draw_curve(
            trainer.folder,
            title=title,
            references=_references(before.env_id),
            before=evaluation_metrics(before),
        )
        self._say_each(before, after)
        self.say(f"\nbefore: {before}\nafter:  {after}\nrun:    {trainer.folder} ({picture.name})")
        if trainer.warm_start:
            at = trainer.schedule.solver_at()
            when = f"after iteration {at}" if at else "before the first iteration"
            self.say(f"note: imitated {when}: {imitated(trainer.config, trainer.warm_start)}")
        for note in after.problems("--inference.max-tokens"):
            self.say(f"note: {note}")
        if self._judged:
            self._say_verdict(before, after)
        self.say(next_commands(trainer.config, trainer.folder))

    def _say_each(self, before: Evaluation, after: Evaluation) -> None:
        was, now = by_env(before.episodes), by_env(after.episodes)
        if len(now) < 2:
            return
        self.say(f"\n{'success':<40} before   after  random  reflex  solver")
        for env_id, episodes in now.items():
            known = _references(env_id)
            played = [
                Evaluation(env_id, own, 0, 0.0).success if own else None
                for own in (was.get(env_id), episodes)
            ]
            shares = [*played, *map(known.get, _PLAYERS)]
            row = "".join(f"{'' if one is None else f'{one:.0%}':>8}" for one in shares)
            self.say(f"{env_id:<39}{row}")

    def _go_on(self) -> str:
        return f"go on with: {resume_command(self._trainer.config)}"

    def _say_verdict(self, before: Evaluation, after: Evaluation | None) -> None:
        # What came and went is said once, with its last number.
        advice = list({re.sub(r"[\d.]+", "", each): each for each in self._advice}.values())
        if after is not None:
            embedded = self._trainer.config.model.is_embedded
            last = final_diagnosis(before, after, self._trainer.metrics_history, embedded=embedded)
            advice += [] if last is None else [last]
        for sentence in advice:
            self.say(f"advice: {sentence}")

    def _compare(self, before: Evaluation, after: Evaluation) -> None:
        then = {episode.seed: episode for episode in before.episodes}
        both = [(then[episode.seed], episode) for episode in after.episodes if episode.seed in then]
        for first, second in both[:_COMPARED]:
            self.console.rule(f"held-out episode, seed {first.seed}")
            for label, episode in (("before", first), ("after", second)):
                turns = f"{episode.num_turns} turn{'s' * (episode.num_turns != 1)}"
                self.console.print(f"[bold]{label}[/]: {episode.stop_reason}, {turns}")
                self.say(transcript(episode))


def transcript(episode: Trajectory) -> str:
    """Return an episode as text; a long one is cut in the middle."""
    turns = [
        f"  {_line(state)}\n    > {_line(action)}"
        for state, action in zip(episode.states, episode.actions, strict=False)
    ]
    if (left_out := len(turns) - 2 * _ENDS) > 0:
        turns[_ENDS:-_ENDS] = [f"  ({left_out} more turns)"]
    final = episode.states[-1] if len(episode.states) > len(episode.actions) else ""
    return "\n".join([*turns, f"  {_line(final)}"])


def _line(text: str) -> str:
    return " | ".join(clip(text, _LONGEST).splitlines())


def _references(env_id: str | None) -> Mapping[str, float]:
    row = published().get(env_id or "", {})
    return {player: row[player].success for player in _PLAYERS if player in row}


CURVE = "curve.png"
_TRAIN, _EVAL, _REFERENCE, _INK = "#9ec3e6", "#1f5fa8", "#8a8a8a", "#333333"


def draw_curve(
    folder: str | Path,
    *,
    title: str | None = None,
    references: Mapping[str, float] | None = None,
    before: Mapping[str, float] | None = None,
) -> Path:
    """Draw success and return of a run over its iterations; return the picture's path."""
    from matplotlib.figure import Figure

    rows = metrics.read_metrics(folder)
    if not rows:
        raise ConfigError(f"there is nothing to draw: {folder} has no metrics")
    rows = [{**before, metrics.ITERATION: 0}, *rows] if before else rows
    figure = Figure(figsize=(6.4, 5.4), dpi=140, layout="constrained")
    success, earned = figure.subplots(2, 1, sharex=True)
    _draw(success, rows, "success", metrics.TRAIN_SUCCESS, metrics.EVAL_SUCCESS)
    _draw(earned, rows, "return", metrics.RETURN, metrics.EVAL_RETURN)
    draw_references(success, references or {})
    success.set_ylim(-0.02, 1.02)
    earned.set_xlabel("iteration")
    earned.locator_params(axis="x", integer=True)
    figure.align_ylabels()
    if success.get_legend_handles_labels()[0]:
        success.legend(frameon=False, loc="best", fontsize=9)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, color=_INK)
    path, picture = Path(folder) / CURVE, io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())
    return path


def _draw(axes: Axes, rows: list[metrics.Row], what: str, train: str, held_out: str) -> None:
    lines: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (train, "training", {"color": _TRAIN, "linewidth": 1.4}),
        (held_out, "held out", {"color": _EVAL, "linewidth": 2.0, "marker": "o", "markersize": 3}),
    )
    for name, label, style in lines:
        points = [(row[metrics.ITERATION], row[name]) for row in rows if name in row]
        if len(points) == 1:  # a line through one point cannot be seen
            style = style | {"marker": "o"}
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set_ylabel(what)
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors=_INK, labelsize=9)
    axes.set_axisbelow(True)


_NEAR = 0.05
"""Heights that are nearer than this share a label, which could not be read otherwise."""


def draw_references(axes: Axes, references: Mapping[str, float]) -> None:
    """Draw a dashed line at each height, with its name to the right."""
    labels: dict[float, str] = {}
    for name, height in sorted(references.items(), key=lambda each: each[1]):
        axes.axhline(height, color=_REFERENCE, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
        near = next((at for at in labels if height - at < _NEAR), height)
        labels[near] = f"{labels[near]}\n{name}" if near in labels else name
    for height, label in labels.items():
        axes.annotate(
            label,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=_REFERENCE,
            annotation_clip=False,
        )

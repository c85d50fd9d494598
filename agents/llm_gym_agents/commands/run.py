"""One run of ``llm-gym train`` or ``llm-gym resume``, from its settings to its report."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from llm_gym.cli.terminal_text import say as write
from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym_agents.commands.plan import check_folder, few_choices, finished, notes
from llm_gym_agents.commands.report import RunReport, say
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import Choice
from llm_gym_agents.config.trust import names_code
from llm_gym_agents.learn.schedule import EarlyStop
from llm_gym_agents.learn.single_process import SigtermListener, StopRequested
from llm_gym_agents.model.load import TINY_SPREAD, limit_threads, tiny_llama
from llm_gym_agents.recipes import Recipe
from llm_gym_agents.run import metrics
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.run.checkpoints import Checkpoints, load_checkpoint, model_folder, number
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.text.tokenizers import collect_vocabulary, word_tokenizer
from llm_gym_agents.trainer.build import check_memory, is_main, load_lm
from llm_gym_agents.trainer.ppo_trainer import PPOTrainer
from llm_gym_agents.trainer.run_folder import FINAL, WARM_START


def run(
    recipe: Recipe,
    config: ConfigStore,
    choices: Sequence[Choice] = (),
    *,
    hurry: bool = False,
    strict: bool = False,
) -> int:
    """Train and report. With ``hurry`` a new small model's tokenizer is built from fewer texts."""
    console = Console(quiet=not is_main(config.parallel))
    if check_folder(config):
        folder = config.checkpoint.output_dir
        say(console, f"note: the run in {folder} ended before its first checkpoint; starting again")
        config.checkpoint.resume = True  # without a checkpoint: from zero, without old metrics
    _introduce(recipe, config, choices, console)
    made: dict[str, Any] = {}
    if recipe.vocabulary_episodes:
        with console.status("making a model"):
            episodes = 20 if hurry else recipe.vocabulary_episodes
            words = collect_vocabulary([str(recipe.config.environment.env_id)], episodes)
            made["tokenizer"] = tokenizer = word_tokenizer(words)
            made["model"] = tiny_llama(
                tokenizer, spread=TINY_SPREAD, seed=config.training.seed, context_length=256
            )
    trainer = PPOTrainer(config, **made)
    report = RunReport(trainer, console, strict=strict, judged=not hurry)
    return train(trainer, report, recipe.name)


def resume_run(folder: Path, config: ConfigStore) -> int:
    """Resume the run in ``folder``, whose config the user trusts."""
    if names_code(config):
        sys.path.insert(0, "")
    newest = Checkpoints(folder / "checkpoints").latest() or folder / WARM_START
    state = load_checkpoint(newest)
    if missing := state.parts["run"].values["unsaved_args"]:
        raise ConfigError(
            f"the run in {folder} needs its {' and '.join(missing)}, which only the program that "
            "began it has; run that again with config.checkpoint.resume = True"
        )
    config.checkpoint.output_dir, config.checkpoint.resume = str(folder), True
    console = Console(quiet=not is_main(config.parallel))
    early = EarlyStop(config.checkpoint, config.environment)
    early.load_state(state.parts["run"].values["early_stop"])
    if (folder / FINAL).is_dir() and early.why:
        say(console, f"{early.why}\n{finished(config, folder, state.iteration)}")
        return 0
    if is_main(config.parallel):
        lock = RunLock(folder)
        lock.acquire(instead="")
        lock.release()
    where = f"iteration {state.iteration}" if state.iteration else "the warm start"
    done = f"{state.iteration} of {config.training.iterations} iterations done"
    say(console, f"continuing after {where}: {done}")
    if config.model.lora_rank:
        # The checkpoint's model is merged; its adapters belong on the base that the config names.
        trainer = PPOTrainer(config)
    else:
        check_memory(config, path := str(model_folder(state)))
        lm, tokenizer = load_lm(config.model, path)
        trainer = PPOTrainer(config, tokenizer=tokenizer, model=lm)
    return train(trainer, RunReport(trainer, console), folder.name)


def warm_start_only(config: ConfigStore) -> int:
    """Train a model by imitation only, and save it in the output folder."""
    out = Path(config.checkpoint.output_dir)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"--out must be a new or empty folder, got {out}, which has files")
    with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
        config.checkpoint.output_dir = folder
        trainer = PPOTrainer(config)
        limit_threads(trainer.learner.lm)
        try:
            trainer.warm_up(write)
            if not trainer.warm_start:
                write("nothing was taught, so nothing was written")
                return 1
            save_lm(out, trainer.learner.lm, trainer.tokenizer)
        finally:
            trainer.cleanup()
    what = config.environment.env_id or "..."
    write(f"{out}  (train it with: llm-gym train {what} --model {out})")
    return 0


def train(trainer: PPOTrainer, report: RunReport, title: str) -> int:
    """Run ``trainer`` and report; every failure becomes one sentence."""
    limit_threads(trainer.learner.lm)
    trainer.on_warning, trainer.on_notice = report.advise, report.say
    try:
        trainer.lock_folder()  # before anything is written: another process may use the folder
        # SIGTERM ends the warm start and the first evaluation at once.
        with SigtermListener() as stop, stop.interruptible(), report.console.status("") as status:
            trainer.warm_up(report.say, status.update)
            status.update("evaluating")
            before = report.evaluate_before()
        latest = trainer.checkpoints.latest() if trainer.config.checkpoint.resume else None
        done = 0 if latest is None else number(latest)
        total = trainer.config.training.iterations
        with TrainingProgress(report.console, total, done) as progress:
            trainer.callbacks.append(lambda trainer, row: progress.show(row))
            trainer.fit()
        if trainer.stopped:
            report.on_sigterm(before)
            return 0
        after = report.evaluate_after()
    except StopRequested:
        report.interrupted()
        return 0
    except KeyboardInterrupt:
        report.interrupted()
        raise
    except OSError as error:
        if isinstance(error, LLMGymError):
            raise
        raise report.stopped(str(error)) from error
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        less = "lower training.micro_batch_tokens, inference.num_envs or training.batch_size"
        raise report.stopped(f"out of memory; {less} in its config.json") from error
    finally:
        trainer.cleanup()
    if trainer.ranks.is_main:
        report.finished(before, after, title)
    return 0


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; on a CPU torch says so only in the message."""
    cpu_out_of_memory = "can't allocate memory" in str(error)
    return cpu_out_of_memory or isinstance(error, MemoryError | torch.OutOfMemoryError)


def _introduce(
    recipe: Recipe, config: ConfigStore, choices: Sequence[Choice], console: Console
) -> None:
    for note in notes(config, choices):
        console.print(note, style="yellow", markup=False)
    for line in few_choices(choices):
        say(console, line)
    if recipe.expected:
        say(console, f"{recipe.name}: {recipe.about}\nexpected: {recipe.expected}")
    else:
        console.print(recipe.about, style="bold", markup=False)


# label, metric, format
_COLUMNS = (
    ("held-out success", metrics.EVAL_SUCCESS, ".1%"),
    ("success", metrics.TRAIN_SUCCESS, ".1%"),
    ("return", metrics.RETURN, ".3f"),
    ("KL", metrics.KL, ".4f"),
    ("entropy", metrics.ENTROPY, ".3f"),
    ("explained variance", metrics.EXPLAINED_VARIANCE, ".2f"),
    ("tokens/s", metrics.TOKENS_PER_SECOND, ",.0f"),
    # Only of runs on several actors.
    ("idle", "time/actor_idle", ".0%"),
    ("staleness", "ray/staleness_mean", ".2f"),
    ("restarts", "ray/restarts", ".0f"),
)


class TrainingProgress(Progress):
    """Prints a line for each iteration; below them, a terminal has a bar with the time left."""

    def __init__(self, console: Console, total: int, done: int = 0, **options: Any) -> None:
        super().__init__(
            *(TextColumn("[bold]iteration"), MofNCompleteColumn(), BarColumn(None)),
            *(TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left")),
            console=console,
            disable=not console.is_terminal,
            expand=True,
            speed_estimate_period=float("inf"),  # an iteration may take minutes
            **options,
        )
        self.add_task("", total=total, completed=done)

    def show(self, row: Mapping[str, float]) -> None:
        """Print the metrics of a finished iteration."""
        [task] = self.tasks
        self.update(task.id, advance=1)
        line = [f"iteration {task.completed:g}/{task.total:g}"]
        line += [f"{label} {row[name]:{form}}" for label, name, form in _COLUMNS if name in row]
        if self.disable:
            left = "?" if task.time_remaining is None else timedelta(seconds=task.time_remaining)
            line.append(f"{left} left")
        say(self.console, "  ".join(line))

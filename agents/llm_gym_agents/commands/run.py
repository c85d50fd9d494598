"""One run of ``llm-gym train`` or ``llm-gym resume``, from its settings to its report."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from llm_gym.cli.terminal_text import say as write
from llm_gym.core.errors import ConfigError
from llm_gym_agents.commands.plan import few_choices, finished, resume_command
from llm_gym_agents.commands.report import RunReport, say
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import DEFAULT, Choice
from llm_gym_agents.config.trust import names_code
from llm_gym_agents.distributed.build import load_lm
from llm_gym_agents.distributed.launch import is_main
from llm_gym_agents.distributed.run_folder import FINAL, WARM_START
from llm_gym_agents.learn.schedule import EarlyStop
from llm_gym_agents.model.load import limit_threads
from llm_gym_agents.recipes.recipe import Recipe
from llm_gym_agents.rollouts.evaluation import Evaluation
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.run.checkpoints import Checkpoints, load_checkpoint, model_folder
from llm_gym_agents.run.metrics import read_metrics
from llm_gym_agents.run.process import SigtermListener, StopRequested
from llm_gym_agents.run.progress import TrainingProgress
from llm_gym_agents.trainer import PPOTrainer


def run(
    recipe: Recipe,
    config: ConfigStore,
    choices: Sequence[Choice] = (),
    *,
    hurry: bool = False,
    strict: bool = False,
) -> int:
    """Train and report. With ``hurry`` a recipe prepares its first model only roughly."""
    console = Console(quiet=not is_main(config.parallel))
    config.check()
    _check_folder(config, console)
    _introduce(recipe, config, choices, console)
    made: dict[str, Any] = {}
    if recipe.prepare is not None:
        with console.status("making a model"):
            made["model"], made["tokenizer"] = recipe.prepare(config.training.seed, hurry)
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
    if (folder / FINAL).is_dir() and early.is_enough:
        say(console, f"{early.why}\n{finished(config, folder, state.iteration)}")
        return 0
    where = f"iteration {state.iteration}" if state.iteration else "the warm start"
    say(console, f"going on after {where}, of {config.training.iterations} iterations")
    if config.model.lora_rank:
        # The checkpoint's model is merged; its adapters belong on the base that the config names.
        trainer = PPOTrainer(config)
    else:
        lm, tokenizer = load_lm(config, str(model_folder(state)))
        trainer = PPOTrainer(config, tokenizer=tokenizer, model=lm)
    return train(trainer, RunReport(trainer, console), folder.name)


def warm_start_only(config: ConfigStore) -> int:
    """Train a model by imitation only, and save it in the output folder."""
    out = Path(config.checkpoint.output_dir)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"--out must be a new folder, got {out}, which holds something")
    with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
        config.checkpoint.output_dir = folder
        trainer = PPOTrainer(config)
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
    progress = TrainingProgress(report.console)
    trainer.callbacks.append(lambda trainer, row: progress.show(row))
    trainer.on_warning, trainer.on_notice = report.advise, report.say
    try:
        trainer.lock_folder()  # before anything is written: another process may use the folder
        before = _prepare(trainer, report)
        with progress:
            latest = trainer.checkpoints.latest() if trainer.config.checkpoint.resume else None
            done = 0 if latest is None else int(latest.name.rpartition("-")[2])
            progress.begin(trainer.schedule.iterations, done)
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
        raise report.cannot_write(error) from error
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        raise report.out_of_memory() from error
    finally:
        trainer.cleanup()
    if trainer.ranks.is_main:
        report.finished(before, after, title)
    return 0


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; on a CPU torch says so only in the message."""
    said = "can't allocate memory" in str(error)
    return said or isinstance(error, MemoryError | torch.OutOfMemoryError)


def _prepare(trainer: PPOTrainer, report: RunReport) -> Evaluation:
    """Do the warm start and evaluate; SIGTERM ends this at once."""
    with SigtermListener() as stop, stop.interruptible(), report.console.status("") as status:
        trainer.warm_up(report.say, status.update)
        status.update("evaluating")
        return report.evaluate_before()


def _check_folder(config: ConfigStore, console: Console) -> None:
    """Refuse a folder that holds another run; a run without a checkpoint is started again."""
    folder = config.checkpoint.output_dir
    if not read_metrics(folder) or config.checkpoint.resume:
        return
    if Checkpoints(Path(folder) / "checkpoints").latest() is not None:
        raise ConfigError(
            f"{folder} holds a run already; go on with it by '{resume_command(config)}', or "
            "choose another folder with --checkpoint.output-dir"
        )
    console.print(f"note: the run in {folder} ended before its first checkpoint; starting again")
    config.checkpoint.resume = True  # without a checkpoint: from zero, without old metrics


def _introduce(
    recipe: Recipe, config: ConfigStore, choices: Sequence[Choice], console: Console
) -> None:
    """Print what will be trained, and how."""
    by_default = tuple(choice.setting for choice in choices if choice.by == DEFAULT)
    for sentence in config.unused_settings():
        if not sentence.startswith(by_default):
            console.print(f"note: {sentence}", style="yellow")
    for line in few_choices(choices):
        say(console, line)
    if recipe.expected:
        say(console, f"{recipe.name}: {recipe.about}\nexpected: {recipe.expected}")
    else:
        console.print(f"[bold]{recipe.about}[/]")

"""``llm-gym train`` and ``llm-gym resume``."""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console

from llm_gym.cli.common import add_imports, import_modules
from llm_gym.cli.shown import shown
from llm_gym.episodes import Trajectory, read_episodes
from llm_gym.errors import ConfigError, LLMGymError
from llm_gym.evaluate.scores import published
from llm_gym.registry.plugins import find_spec
from llm_gym.view.beside import view_beside
from llm_gym_agents.build import is_embedded, load_lm
from llm_gym_agents.checkpoint import Checkpoints, load_checkpoint, model_folder
from llm_gym_agents.commands.plan import (
    choice_lines,
    choose,
    flags,
    keep_choices,
    list_recipes,
    next_commands,
    show_plan,
    try_env,
)
from llm_gym_agents.config import ConfigStore, parse_args
from llm_gym_agents.config.defaults import DEFAULT, Choice, named
from llm_gym_agents.config.files import read_config
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.distributed.place import agree, leads
from llm_gym_agents.distributed.plan import planned
from llm_gym_agents.recipes import NAMES, Recipe, find_recipe
from llm_gym_agents.rollouts.evaluation import Evaluation
from llm_gym_agents.run.lock import is_locked
from llm_gym_agents.run.metrics import read_metrics
from llm_gym_agents.run.plots import draw_curve
from llm_gym_agents.run.progress import TrainingProgress
from llm_gym_agents.run.verdict import verdict
from llm_gym_agents.run_folder import WARM_START
from llm_gym_agents.trainer import PPOTrainer

_EPILOG = "every other argument is a setting: llm-gym train ENV --help-settings lists them"


def main(argv: list[str]) -> int:
    """Train by recipe, by environment or by config file."""
    options, rest = _parser().parse_known_args(argv)
    import_modules(options)
    if options.target is None:
        list_recipes(sys.stdout)
        return 0
    recipe, chosen = _recipe(options.target, options.modules)
    config = recipe.config
    if options.config:
        config.update(ConfigStore.load(options.config).diff())
        chosen = None if chosen is None else chosen | named(read_config(Path(options.config)))
    unnamed = config.checkpoint.output_dir == ConfigStore().checkpoint.output_dir
    if unnamed:
        name = f"{recipe.name}-smoke" if options.smoke else recipe.name
        config.checkpoint.output_dir = str(_unused(Path("runs") / name))
    config = parse_args(["--help"] if options.help_settings else rest, config)
    try_env(config)
    if not options.dry_run:
        agree(config)
    choices = [] if chosen is None else choose(config, chosen | flags(rest))
    if options.smoke:
        _shrink(config)
    if options.dry_run:
        config.check()
        show_plan(config, choices, sys.stdout)
        return 0
    with ExitStack() as beside:
        if options.view and leads(config):
            config.check()
            url = beside.enter_context(view_beside(Path(config.checkpoint.output_dir)))
            _say(Console(), f"live:   {url}")
        return run(recipe, config, choices, hurry=options.smoke, strict=options.strict)


def resume(argv: list[str]) -> int:
    """Go on with a run that was stopped or killed."""
    parser = argparse.ArgumentParser(prog="llm-gym resume", description=resume.__doc__)
    parser.add_argument("run", help="the folder of the run")
    add_imports(parser)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run whatever code the folder names: of its model, its environment, its engine",
    )
    options = parser.parse_args(argv)
    import_modules(options)
    folder = Path(options.run)
    latest = Checkpoints(folder / "checkpoints").latest()
    if latest is None and (folder / WARM_START).exists():
        latest = folder / WARM_START
    if latest is None:
        raise ConfigError(
            f"{folder} has no checkpoint to go on from; the same 'llm-gym train' with "
            f"--checkpoint.output-dir {folder} begins it again"
        )
    state = load_checkpoint(latest)
    if missing := state.parts["run"].values["handed_over"]:
        raise ConfigError(
            f"the run in {folder} needs its {' and '.join(missing)}, which only the program that "
            "began it has; run that again with config.checkpoint.resume = True"
        )
    config = ConfigStore.load(folder / "config.json")
    if not options.trust and (why := untrusted(config, options.modules)):
        raise ConfigError(f"{why}; if you trust {folder}, pass --trust")
    config.checkpoint.output_dir, config.checkpoint.resume = str(folder), True
    if config.model.lora_rank:
        # The checkpoint's model is merged; its adapters belong on the base that the config names.
        trainer = PPOTrainer(config)
    else:
        lm, tokenizer = load_lm(config, str(model_folder(state)))
        trainer = PPOTrainer(config, tokenizer=tokenizer, model=lm)
    return _train(trainer, Console(quiet=not leads(config)), folder.name)


def run(
    recipe: Recipe,
    config: ConfigStore,
    choices: Sequence[Choice] = (),
    *,
    hurry: bool = False,
    strict: bool = False,
) -> int:
    """Train, and show what changed. In a hurry the model to begin with is a poor one."""
    console, folder = Console(quiet=not leads(config)), config.checkpoint.output_dir
    config.check()
    if read_metrics(folder) and not config.checkpoint.resume:
        if Checkpoints(Path(folder) / "checkpoints").latest() is not None:
            raise ConfigError(
                f"{folder} holds a run already; go on with it by 'llm-gym resume {folder}', or "
                "choose another folder with --checkpoint.output-dir"
            )
        console.print(f"note: the run in {folder} ended before its first checkpoint; once more")
        config.checkpoint.resume = True  # from nothing: its rows are let go of
    by_default = tuple(choice.setting for choice in choices if choice.by == DEFAULT)
    for sentence in config.without_effect():
        if not sentence.startswith(by_default):
            console.print(f"note: {sentence}", style="yellow")
    roles = planned(config)
    for line in (*choice_lines(choices), *(roles.lines() if roles else ())):
        _say(console, line)
    if recipe.expected:
        console.print(f"[bold]{recipe.name}[/]: {recipe.about}\nexpected: {recipe.expected}")
    else:
        console.print(f"[bold]{recipe.about}[/]")
    made: dict[str, Any] = {}
    if recipe.prepare is not None:
        with console.status("making a model"):
            made["model"], made["tokenizer"] = recipe.prepare(config, hurry)
    trainer = PPOTrainer(config, **made)
    if trainer.place.leads:
        keep_choices(choices, trainer.folder)
    return _train(trainer, console, recipe.name, strict=strict, judged=not hurry)


def _train(
    trainer: PPOTrainer,
    console: Console,
    title: str,
    *,
    strict: bool = False,
    judged: bool = True,
) -> int:
    progress = TrainingProgress(console)
    trainer.callbacks.append(lambda trainer, row: progress.update(row))
    advice: list[str] = []

    def advise(sentence: str) -> None:
        advice.append(sentence)
        _say(console, f"advice: {sentence}")
        if strict:
            raise ConfigError(f"the run cannot learn: {sentence}")

    trainer.on_advice = advise
    try:
        trainer.lock_folder()
        trainer.warm_up(lambda sentence: _say(console, sentence))
        before = _before(trainer)
        _say(console, f"before: {before}")
        with progress:
            latest = trainer.checkpoints.latest() if trainer.config.checkpoint.resume else None
            done = 0 if latest is None else int(latest.name.rpartition("-")[2])
            progress.start(
                trainer.schedule.iterations, done, trainer.config.environment.eval_interval
            )
            trainer.fit()
        if trainer.stopped:
            _say(console, f"told to stop; go on with: llm-gym resume {trainer.folder}")
            _advise(trainer, console, before, _last(trainer), advice)
            return 0
        _say_why_it_ended(trainer, console)
        after = trainer.evaluate(
            trainer.schedule.reported, str(trainer.folder / "episodes/after.jsonl")
        )
    except KeyboardInterrupt:
        if trainer.checkpoints.latest() is not None:
            _say(console, f"stopped; go on with: llm-gym resume {trainer.folder}")
        raise
    except OSError as error:
        raise _stopped(trainer, error) from error
    finally:
        trainer.cleanup()
    if not trainer.place.leads:
        return 0
    _compare(console, before, after)
    picture = draw_curve(trainer.folder, title=title, references=_references(before))
    _say(console, f"\nbefore: {before}\nafter:  {after}\nrun:    {trainer.folder} ({picture.name})")
    if judged:  # one tiny iteration of everything shows nothing
        _advise(trainer, console, before, after, advice)
    _say(console, next_commands(trainer.config, trainer.checkpoints))
    return 0


def _say_why_it_ended(trainer: PPOTrainer, console: Console) -> None:
    done = len(trainer.metrics_history)
    if done < trainer.schedule.iterations and trainer.early_stop.ended is not None:
        _say(console, f"enough after iteration {done}: {trainer.early_stop.ended}")
    if trainer.ended_with_best:
        whose = f"iteration {trainer.iteration}" if trainer.iteration else "the warm start"
        _say(console, f"ending with the weights of {whose}, the best")


def _advise(
    trainer: PPOTrainer,
    console: Console,
    before: Evaluation,
    after: Evaluation | None,
    said: Sequence[str],
) -> None:
    """Say again what was advised, and how far the run has come."""
    last = None
    if after is not None:
        embedded = is_embedded(trainer.config)
        last = verdict(before, after, trainer.metrics_history, embedded=embedded)
    for sentence in [*said, *([] if last is None else [last])]:
        _say(console, f"advice: {sentence}")


def _last(trainer: PPOTrainer) -> Evaluation | None:
    """Return the newest evaluation of a run that was stopped; None if there is none."""
    records = sorted((trainer.folder / "episodes").glob("eval-*.jsonl"))
    if not records:
        return None
    played = list(read_episodes(records[-1]))
    return Evaluation(trainer.sampler.env_id, played, 0, 0.0)


def _stopped(trainer: PPOTrainer, error: OSError) -> LLMGymError:
    """Return what to say when the folder cannot be written to, and what is left."""
    if isinstance(error, LLMGymError):
        return error
    kept = "nothing was trained yet"
    if trainer.checkpoints.latest() is not None:
        kept = f"what is there is whole; go on with: llm-gym resume {trainer.folder}"
    return LLMGymError(f"the run in {trainer.folder} stopped: {error}; {kept}")


def _before(trainer: PPOTrainer) -> Evaluation:
    """Return how the model played before its first iteration, from the records of a resumed run."""
    records = trainer.folder / "episodes/before.jsonl"
    if trainer.checkpoints.latest() is None or not records.exists():
        return trainer.evaluate(trainer.schedule.reported, str(records))
    return Evaluation(trainer.sampler.env_id, list(read_episodes(records)), 0, 0.0)


def _say(console: Console, text: str) -> None:
    """Print text, of models too; a console that is no terminal would cut its lines."""
    console.print(shown(text, keep="\n"), markup=False, highlight=False, soft_wrap=True)


def _unused(folder: Path) -> Path:
    """Return ``folder``, or the first of ``folder-2``, ``folder-3``, ... that holds no run."""
    names = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    places = itertools.chain([folder], names)
    return next(place for place in places if not read_metrics(place) and not is_locked(place))


def _compare(console: Console, before: Evaluation, after: Evaluation, count: int = 3) -> None:
    """Show the same held-out episodes as they were played before and after."""
    then = {episode.seed: episode for episode in before.episodes}
    both = [(then[episode.seed], episode) for episode in after.episodes if episode.seed in then]
    for first, second in both[:count]:
        console.rule(f"held-out episode, seed {first.seed}")
        for label, episode in (("before", first), ("after", second)):
            turns = f"{episode.num_turns} turn{'s' * (episode.num_turns != 1)}"
            console.print(f"[bold]{label}[/]: {episode.stop_reason}, {turns}")
            _say(console, _transcript(episode))


def _transcript(episode: Trajectory) -> str:
    lines = []
    for state, action in zip(episode.states, episode.actions, strict=False):
        lines.append(f"  {' | '.join(state.splitlines())}\n    > {action}")
    final = episode.states[-1] if len(episode.states) > len(episode.actions) else ""
    return "\n".join([*lines, f"  {' | '.join(final.splitlines())}"])


def _references(result: Evaluation) -> dict[str, float]:
    row = published().get(result.env_id or "", {})
    return {player: row[player].success for player in ("random", "solver") if player in row}


def _recipe(target: str, modules: list[str]) -> tuple[Recipe, set[str] | None]:
    """Return the recipe, and which settings it chose; None where it is complete as it is."""
    found = find_recipe(target)
    if found is not None:
        return found, None
    chosen: set[str] = set()
    if target.endswith((".yaml", ".yml", ".json")):
        config = ConfigStore.load(target)
        name, chosen = Path(target).stem, named(read_config(Path(target)))
    else:
        config, name = ConfigStore(), re.split("[/:]", target)[-1]
        try:
            find_spec(target)
        except ConfigError as error:
            raise ConfigError(
                f"train takes a recipe ({', '.join(NAMES)}), a registered id or a config file, "
                f"got {target!r}: {error}"
            ) from error
        config.environment.env_id = _with_module(target, modules)
    about = f"Training on {target}."
    return Recipe(name=name, about=about, expected="", config=config), chosen


def _with_module(env_id: str, modules: list[str]) -> str:
    """Return ``env_id`` with the module that has to be imported first, so that a run resumes."""
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
    home = entry if isinstance(entry, str) else getattr(entry, "__module__", "") or ""
    top = re.split("[.:]", home)[0]
    module = next((module for module in modules if module.split(".")[0] == top), None)
    return env_id if module is None else f"{module}:{env_id}"


def _shrink(config: ConfigStore) -> None:
    """Make a run as small as it can be: everything happens once."""
    config.training.num_epochs = config.training.num_iters_per_epoch = 1
    config.training.batch_size = config.training.group_size * 2
    config.training.mini_batch_size = config.training.batch_size
    config.warm_start.turns, config.warm_start.steps = min(config.warm_start.turns, 200), 2
    config.warm_start.rounds = 1
    config.training.warmup_iters = config.training.critic_warmup_iters = 0
    config.environment.eval_interval, config.environment.eval_episodes = 1, 4
    config.inference.num_envs = 4
    config.inference.max_tokens = min(config.inference.max_tokens, 8)
    config.inference.max_turns = min(config.inference.max_turns or 4, 4)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-gym train", description="Train a model to play.", epilog=_EPILOG
    )
    parser.add_argument(
        "target", nargs="?", help=f"a recipe ({', '.join(NAMES)}), an id or a config file"
    )
    add_imports(parser)
    parser.add_argument("--config", help="a YAML or JSON file of settings on top")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and do nothing")
    parser.add_argument(
        "--strict", action="store_true", help="end a run that cannot learn instead of advising"
    )
    parser.add_argument("--smoke", action="store_true", help="one tiny iteration of everything")
    parser.add_argument("--view", action="store_true", help="open a page that follows the run")
    parser.add_argument("--help-settings", action="store_true", help="list every setting")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

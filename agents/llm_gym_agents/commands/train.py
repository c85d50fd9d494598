"""``llm-gym train`` and ``llm-gym resume``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from llm_gym.cli.common import add_imports, import_modules
from llm_gym.cli.parser import Parser
from llm_gym.errors import ConfigError
from llm_gym.view.live_server import serve_live
from llm_gym_agents.build import load_lm
from llm_gym_agents.checkpoint import Checkpoints, load_checkpoint, model_folder
from llm_gym_agents.commands.needs import check_needs
from llm_gym_agents.commands.plan import choose, flags, list_recipes, show_plan, try_env
from llm_gym_agents.commands.report import RunReport, say
from llm_gym_agents.commands.run import run, train
from llm_gym_agents.commands.target import find_target, shrink, unused_folder
from llm_gym_agents.config import ConfigStore, parse_args
from llm_gym_agents.config.defaults import named
from llm_gym_agents.config.files import read_config, untrusted
from llm_gym_agents.distributed.place import agree, leads
from llm_gym_agents.recipes import NAMES
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
    recipe, chosen = find_target(options.target, options.modules)
    config = recipe.config
    if options.config:
        config.update(ConfigStore.load(options.config).diff())
        chosen = None if chosen is None else chosen | named(read_config(Path(options.config)))
    unnamed = config.checkpoint.output_dir == ConfigStore().checkpoint.output_dir
    if unnamed:
        name = f"{recipe.name}-smoke" if options.smoke else recipe.name
        config.checkpoint.output_dir = str(unused_folder(Path("runs") / name))
    config = parse_args(["--help"] if options.help_settings else rest, config)
    check_needs(config)
    if config.environment.env_id is None:
        raise ConfigError(f"{options.target} must name what is played, as environment.env_id")
    try_env(config)
    if not options.dry_run:
        agree(config)
    choices = [] if chosen is None else choose(config, chosen | flags(rest))
    if options.smoke:
        shrink(config)
    if options.dry_run:
        config.check()
        show_plan(config, choices, sys.stdout)
        return 0
    with ExitStack() as beside:
        if options.view and leads(config):
            config.check()
            url = beside.enter_context(serve_live(Path(config.checkpoint.output_dir)))
            say(Console(), f"live:   {url}")
        return run(recipe, config, choices, hurry=options.smoke, strict=options.strict)


def resume(argv: list[str]) -> int:
    """Go on with a run that was stopped or killed."""
    parser = Parser(prog="llm-gym resume", description=resume.__doc__)
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
    state = load_checkpoint(_newest(folder))
    if missing := state.parts["run"].values["unsaved_args"]:
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
    console = Console(quiet=not leads(config))
    return train(trainer, RunReport(trainer, console), folder.name)


def _newest(folder: Path) -> Path:
    """Return the checkpoint that a run goes on from; refuse a folder without one."""
    if latest := Checkpoints(folder / "checkpoints").latest():
        return latest
    if (folder / WARM_START).exists():
        return folder / WARM_START
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; name that of a run, such as runs/Echo-v0")
    raise ConfigError(
        f"{folder} has no checkpoint to go on from; the same 'llm-gym train' with "
        f"--checkpoint.output-dir {folder} begins it again"
    )


def _parser() -> Parser:
    parser = Parser(prog="llm-gym train", description="Train a model to play.", epilog=_EPILOG)
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

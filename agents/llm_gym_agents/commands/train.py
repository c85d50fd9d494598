"""``llm-gym train`` and ``llm-gym resume``.

Help texts and errors about flags, ids and folders come before torch is imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from llm_gym.cli.common import (
    add_imports,
    build,
    check_model_path,
    import_modules,
)
from llm_gym.cli.parser import Parser
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError, require_package
from llm_gym.core.text import closest
from llm_gym.registry.lookup import find_spec
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.recipes import NAMES, Recipe
from llm_gym_agents.run.files import check_links, checkpoints

if TYPE_CHECKING:
    from llm_gym_agents.config import ConfigStore

_EPILOG = (
    "Every other argument is a setting. Often used: --training.learning-rate, --training.num-epochs"
    ", --training.batch-size, --training.adv-estimator (gae, grpo, ...), --training.seed, "
    "--model.lora-rank, --inference.backend, --inference.max-tokens, --environment.env-kwargs, "
    "--warm-start.player, --checkpoint.tracker. llm-gym train ENV --help-settings and "
    "docs/settings.md list all settings."
)


def main(argv: list[str]) -> int:
    """Train with a recipe, an environment or a config file."""
    # With --suite there is no target, and the value of a setting must not be read as one.
    options, rest = _parser(has_target="--suite" not in argv).parse_known_args(argv)
    if not argv:
        from llm_gym_agents.commands.plan import list_recipes

        list_recipes()
        return 0
    import_modules(options)
    recipe, config, chosen = _read_settings(options, rest)

    from llm_gym_agents.commands.plan import check_folder, check_player, choose, show_plan, shrink

    _check_needs(config)
    starts = not (options.dry_run or options.warm_start_only)
    if starts and config.parallel.mode == "none":  # else ``sync_config`` may choose to resume
        check_folder(config)
    if not options.smoke:  # which makes sizes small that contradict each other
        config.check(light=True, chosen=chosen)
    for env_id in config.environment.env_ids:  # a wrong setting is one sentence, no traceback
        close_user_env(build(env_id, config.environment.kwargs_of(env_id)))
    if options.warm_start_only and chosen is not None:
        # The defaults of a later run on this model, whose prompts hold the rules.
        chosen |= {"inference.system_prompt"}
    choices = [] if chosen is None else choose(config, chosen, checks=not options.smoke)
    if options.smoke:
        shrink(config)
    if options.warm_start_only and config.warm_start.player == "none":
        config.warm_start.player = "random"
    config.check()
    check_player(config)
    if options.dry_run:
        show_plan(config, choices)
        return 0

    from llm_gym_agents.commands.run import run, warm_start_only
    from llm_gym_agents.trainer.build import is_main, sync_config

    sync_config(config)
    if options.warm_start_only:
        return warm_start_only(config)
    is_live = options.view and is_main(config.parallel)
    with _followed(Path(config.checkpoint.output_dir)) if is_live else nullcontext():
        return run(recipe, config, choices, hurry=options.smoke, strict=options.strict)


def _read_settings(
    options: argparse.Namespace, rest: list[str]
) -> tuple[Recipe, ConfigStore, set[str] | None]:
    """Return the recipe, its settings, and the names that the user set; None for all."""
    if options.target is not None:
        _check_target(options.target)
    elif options.suite is None and not options.help_settings:
        file = f": llm-gym train {options.config}" if options.config else ""
        raise ConfigError(f"name what to train{file}; llm-gym train alone shows what can be named")

    from llm_gym_agents.commands.plan import find_suite, find_target, unused_folder
    from llm_gym_agents.config import ConfigStore, parse_args
    from llm_gym_agents.config.cli import flags
    from llm_gym_agents.config.store import named, read_config
    from llm_gym_agents.config.trust import names_code

    if options.target is None and options.suite is None:
        parse_args(["--help"])
    recipe: Recipe
    chosen: set[str] | None
    if options.suite is not None:
        recipe, chosen = find_suite(options.suite or [""])
    else:
        recipe, chosen = find_target(options.target, options.modules)
    config = recipe.config
    if options.config:
        config.update(ConfigStore.load(options.config).diff())
        chosen = None if chosen is None else chosen | named(read_config(Path(options.config)))
    if config.checkpoint.output_dir == ConfigStore().checkpoint.output_dir:
        kind = "-smoke" * options.smoke + "-warm-start" * options.warm_start_only
        config.checkpoint.output_dir = str(unused_folder(Path("runs") / f"{recipe.name}{kind}"))
    shortcuts = {"--model.model-name": options.model, "--checkpoint.output-dir": options.out}
    for flag, value in shortcuts.items():
        rest = rest if value is None else [flag, value, *rest]
    own = [flag for flag in _parser()._option_string_actions if flag.startswith("--")]
    before, config = config, parse_args(["--help"] if options.help_settings else rest, config, own)
    _check_values(rest, before)
    if names_code(config):
        sys.path.insert(0, "")  # as for ``--import``: finds modules in the current folder
    if not config.environment.env_ids:
        raise ConfigError(f"{options.target} must set environment.env_id or environment.mix")
    return recipe, config, None if chosen is None else chosen | flags(rest)


def _check_values(argv: list[str], config: ConfigStore) -> None:
    """Refuse a dictionary without values, unless it empties one of ``config``."""
    from llm_gym_agents.config.cli import flags
    from llm_gym_agents.config.defaults import get_setting

    for flag, after in pairwise([*argv, "--"]):
        if "=" in flag or not after.startswith("--"):
            continue
        if any(get_setting(config, name) == {} for name in flags([flag])):
            raise ConfigError(f"{flag} needs values, such as {flag} NAME=VALUE")


@contextmanager
def _followed(folder: Path) -> Iterator[None]:
    from llm_gym.view.live_server import serve_live

    with serve_live(folder) as url:
        say(f"live:   {url}")
        yield


def resume(argv: list[str]) -> int:
    """Resume a run that was stopped or killed."""
    parser = Parser(prog="llm-gym resume", description=resume.__doc__)
    parser.add_argument("run", help="the folder of the run")
    add_imports(parser)
    parser.add_argument(
        "--trust",
        action="store_true",
        help="accept everything in the config: code, models, files, servers, large numbers",
    )
    options = parser.parse_args(argv)
    folder = Path(options.run)
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; pass a run, such as runs/Echo-v0")
    check_links(folder)
    if not checkpoints(folder) and not (folder / "warm-start").exists():
        if run := next((each for each in folder.parents if checkpoints(each)), None):
            raise ConfigError(f"{folder} is a folder inside a run; did you mean {run}?")
        raise ConfigError(
            f"{folder} has no checkpoint to resume from; the same 'llm-gym train' with "
            f"--out {folder} starts it again"
        )
    import_modules(options)

    from llm_gym_agents.config import ConfigStore
    from llm_gym_agents.config.trust import untrusted

    config = ConfigStore.load(folder / "config.json")
    done = max((int(each.name[10:]) for each in checkpoints(folder)), default=0)
    if done >= config.training.iterations and (folder / "final").is_dir():
        from llm_gym_agents.commands.plan import finished

        say(finished(config, folder, done))
        return 0
    if not options.trust and (why := untrusted(config, options.modules)):
        raise ConfigError(f"{why}; if you trust {folder}, pass --trust")

    from llm_gym_agents.commands.run import resume_run

    return resume_run(folder, config)


def _check_needs(config: ConfigStore) -> None:
    """Raise ``ConfigError`` now if a package, a model or a file is missing."""
    player, tracker = config.warm_start.player, config.checkpoint.tracker
    served, engine = config.inference.backend, config.inference.engine
    if served == "vllm" or (served == "sglang" and "url" not in engine):
        require_package(served, f"inference.backend {served}")
    if config.ray.use_ray:
        require_package("ray", "ray.use_ray")
    if config.model.lora_rank:
        require_package("peft", "model.lora_rank", "lora")
    if tracker is not None:
        require_package(tracker.partition("/")[0], "checkpoint.tracker")
    if config.warm_start.is_file and not Path(player).is_file():
        raise ConfigError(f"warm_start.player must name an existing file, got {player!r}")
    if not config.model.is_embedded:
        name = config.model.model_name
        check_model_path(name)
        if (Path(name) / "final").is_dir() and checkpoints(Path(name)):
            raise ConfigError(f"{name} is a run; pass the model in it: --model {name}/final")


def _check_target(target: str) -> None:
    if target in NAMES or target.endswith((".yaml", ".yml", ".json")):
        return
    try:
        find_spec(target)
    except ConfigError as error:
        meant = closest(target, NAMES)
        why = f"there is no recipe {target!r}; did you mean {meant}?" if meant else str(error)
        raise ConfigError(f"{why} (llm-gym train without a name lists the recipes)") from error


def _parser(*, has_target: bool = True) -> Parser:
    parser = Parser(
        prog="llm-gym train",
        description="Train a model to play.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.set_defaults(target=None)
    if has_target:
        parser.add_argument(
            "target", nargs="?", help=f"an id, a config file or a recipe ({', '.join(NAMES)})"
        )
    parser.add_argument(
        "--suite",
        nargs="*",
        metavar="PART",
        help="train one model on all games with PART in their id (--suite easy), or on all games",
    )
    parser.add_argument(
        "--model", help="a model folder or hub name (default: the embedded model, tiny and new)"
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder of the run (default: runs/NAME)")
    parser.add_argument("--config", help="a YAML or JSON file with more settings")
    add_imports(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and exit")
    parser.add_argument("--smoke", action="store_true", help="run every part once, very small")
    parser.add_argument(
        "--strict", action="store_true", help="stop a run that cannot learn instead of only warning"
    )
    parser.add_argument("--view", action="store_true", help="open a page that follows the run")
    parser.add_argument(
        "--warm-start-only",
        action="store_true",
        help="train by imitation only, save the model in --out, and stop",
    )
    parser.add_argument("--help-settings", action="store_true", help="list every setting")
    return parser

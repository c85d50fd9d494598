"""``llm-gym warm-start``: teach a model the language of an environment, and nothing else."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from llm_gym.cli.common import add_imports, import_modules, settings
from llm_gym.cli.parser import Parser
from llm_gym.errors import ConfigError
from llm_gym_agents.checkpoint import save_lm
from llm_gym_agents.commands.plan import choose, flags
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.cli import parse_args
from llm_gym_agents.trainer import PPOTrainer


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options, rest = _parser().parse_known_args(argv)
    import_modules(options)
    out = Path(options.out)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"--out must be a new folder, got {out}, which holds something")
    config = ConfigStore()
    config.environment.env_id = options.env
    config.environment.env_kwargs = {"rules": "system", **settings(options.set)}
    config.model.model_name = options.model
    config.warm_start.player = options.player
    config.warm_start.file = options.file
    if options.file is not None:
        config.warm_start.player = "file"
    config = parse_args(rest, config, prog="llm-gym warm-start")
    # As `train` will choose them for a model in a folder, which is told the rules.
    choose(config, flags(rest) | {"warm_start.player", "inference.system_prompt"})
    with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
        config.checkpoint.output_dir = folder
        return _teach(config, out)


def _teach(config: ConfigStore, out: Path) -> int:
    trainer = PPOTrainer(config)
    try:
        trainer.warm_up(_say)
        if not trainer.warm_start:
            sys.stdout.write("nothing was taught, so nothing was written\n")
            return 1
        save_lm(out, trainer.learner.lm, trainer.tokenizer)
    finally:
        trainer.cleanup()
    env_id = config.environment.env_id
    sys.stdout.write(f"{out}  (train it with: llm-gym train {env_id} --model.model-name {out})\n")
    return 0


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")


def _parser() -> Parser:
    parser = Parser(
        prog="llm-gym warm-start",
        description="Teach a model to write moves by imitation, and save it.",
        epilog="every other argument is a setting, such as --warm-start.steps 500",
    )
    parser.add_argument("env", help="an id such as llm_gym/TextGame-v0 or FrozenLake-v1")
    parser.add_argument("--model", default="tiny", help="a model folder or hub name (tiny)")
    parser.add_argument("--out", required=True, help="folder to write the model to")
    parser.add_argument(
        "--player", choices=("random", "solver", "auto"), default="random", help="whose moves"
    )
    parser.add_argument("--file", help="conversations to imitate, as llm-gym sft-data writes them")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an environment's setting"
    )
    add_imports(parser)
    return parser

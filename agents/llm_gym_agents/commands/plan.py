"""``llm-gym train`` before and after a run: its settings, and what to print.

Nothing here needs torch.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from llm_gym.cli.terminal_text import say
from llm_gym.registry.user_code import explain_failures
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import CHOSEN, Choice, apply_defaults, get_setting
from llm_gym_agents.config.profile import (
    WARM_START_BATCH,
    WORD_S,
    TaskProfile,
    iteration_seconds,
    profile_task,
)
from llm_gym_agents.config.store import named
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.recipes import NAMES, find_recipe

# --- settings and plan ----------------------------------------------------------------------


def choose(config: ConfigStore, chosen: set[str]) -> list[Choice]:
    """Apply the defaults for this task; return every setting with its value and reason."""
    # The command line names a dictionary as a whole; the config knows its keys.
    own = named(config.diff())
    with explain_failures(str(config.environment.env_label)):
        seen = profile_task(config)
    return apply_defaults(config, seen, chosen | own)


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    """Return the choices as a table: setting, value, and the reason for a default."""
    if not choices:
        return []
    values = [_value(each) for each in choices]
    widths = [max(map(len, column)) for column in ([each.setting for each in choices], values)]
    return [
        "settings and why they are the default (change any with --section.setting VALUE):",
        *(
            f"  {each.setting:<{widths[0]}}  {value:<{widths[1]}}  "
            f"{each.by if each.by == CHOSEN else each.reason}"
            for each, value in zip(choices, values, strict=True)
        ),
    ]


def few_choices(choices: Sequence[Choice]) -> list[str]:
    """Return what a run prints first: the user's settings, and the other choices in one line."""
    own = [each for each in choices if each.by == CHOSEN]
    usual = ConfigStore()
    rest = [
        each
        for each in choices
        if each.by != CHOSEN and each.value != get_setting(usual, each.setting)
    ]
    changed = ", ".join(f"{each.setting} {_value(each)}" for each in rest)
    return [
        *(f"  {each.setting}  {_value(each)}  ({CHOSEN})" for each in own),
        *([f"for this game and model: {changed} (--dry-run says why)"] if rest else []),
    ]


def _value(choice: Choice) -> str:
    """Return a value as a user would type it: '' for empty text."""
    return str(choice.value) or "''"


def list_recipes() -> None:
    """Print the recipes, and what else can be trained."""
    say(
        "llm-gym train WHAT, where WHAT is\n\n"
        "an environment, with defaults that suit it:\n"
        "  llm_gym/Echo-v0, FrozenLake-v1, my_file:MyEnv, ...    (llm-gym list; any Gymnasium id)\n"
        "a config file:\n"
        "  mine.yaml, runs/NAME/config.json\n"
        "a recipe:"
    )
    for name in NAMES:
        recipe = find_recipe(name)
        assert recipe is not None
        expected = f"    expected: {recipe.expected}\n" * bool(recipe.expected)
        say(f"  {name}\n    {recipe.about}\n{expected}    takes: {_takes(recipe.config)}")
    say(
        "\n--dry-run prints the plan, --smoke tries everything once, --help-settings lists what\n"
        "can be changed, of recipes too, with --section.setting VALUE"
    )


def _takes(config: ConfigStore) -> str:
    """Say what a recipe needs and how long it is."""
    training, model = config.training, f"the model {config.model.model_name}"
    if config.model.is_embedded:
        model = "no model, it makes a small one"
    episodes = training.iterations * training.batch_size
    return f"{model}; at most {episodes:,} episodes of {config.environment.env_label}"


def show_plan(config: ConfigStore, choices: Sequence[Choice]) -> None:
    """Print what a run would do, without starting it."""
    training, inference = config.training, config.inference
    iterations = training.iterations
    seen = profile_task(config)
    # 16 bytes per weight in float32: the weight, its gradient and two moments of AdamW.
    size = f", {seen.weights / 1e6:,.0f}M weights, {seen.weights * 16 / 2**30:.1f} GiB to train all"
    weights = size if seen.weights else ""
    turns = inference.max_turns or seen.turns or 1
    most = training.batch_size * turns * inference.max_tokens
    steps = training.ppo_epochs * -(-training.batch_size // training.mini_batch_size)
    lines = [
        *choice_lines(choices),
        f"model        {config.model.model_name}{weights}",
        f"environment  {_shares(config)}, at most {turns} turns",
        f"batch        {training.batch_size} episodes, {steps} optimizer steps from each",
        f"tokens       at most {most:,} sampled in an iteration",
        f"run          {iterations} iterations, {iterations * training.batch_size:,} episodes",
        f"evaluation   every {config.environment.eval_interval} iterations, "
        f"{config.environment.eval_episodes} episodes",
        f"time         {_time(config, seen)}",
        f"folder       {config.checkpoint.output_dir}",
        "nothing was started",
    ]
    say("\n".join(lines))


def _shares(config: ConfigStore) -> str:
    """Return what is played; for a mix, with each share of the episodes."""
    mix = config.environment.mix
    shares = (f"{weight / sum(mix.values()):.1%} {env_id}" for env_id, weight in mix.items())
    return ", ".join(shares) or str(config.environment.env_id)


def _time(config: ConfigStore, seen: TaskProfile) -> str:
    """Return an estimate of the time; only the speed of the embedded model is known beforehand."""
    if seen.model != "embedded":
        return "known after the first iteration; the display shows it then"
    training, taught = config.training, config.warm_start
    passes = (1 + training.ppo_epochs) / 3  # as the costs were measured
    every = config.environment.eval_interval
    evaluated = config.environment.eval_episodes / every if every else 0.0
    seconds = passes * training.iterations * iteration_seconds(seen, training.batch_size, evaluated)
    if taught.player != "none":
        turn = seen.episode_words / seen.episode_turns * WORD_S
        seconds += taught.steps * WARM_START_BATCH * turn / 2
    minutes = max(1, round(seconds / 60))
    return f"about {minutes} minute{'s' * (minutes > 1)} on one CPU core, or less"


# --- what comes next ------------------------------------------------------------------------


def resume_command(config: ConfigStore) -> str:
    """Return the command that resumes a run, with ``--trust`` if it will ask for it."""
    trust = " --trust" if untrusted(config) else ""
    return f"llm-gym resume {shlex.quote(config.checkpoint.output_dir)}{trust}"


def next_commands(config: ConfigStore, folder: Path) -> str:
    """Return the commands that usually follow a run."""
    settings, place = config.environment, shlex.quote(str(folder))
    game = "".join(f" {shlex.quote(env_id)}" for env_id in settings.env_ids[:1])
    what = "" if settings.mix else game
    commands = (f"play{game} --model {place}", f"eval{what} --model {place}", f"view {place}")
    return "next:" + "".join(f"\n  llm-gym {each}" for each in commands)


def finished(config: ConfigStore, folder: Path, done: int) -> str:
    """Return a sentence about a run that is complete."""
    return (
        f"the run in {folder} is finished after iteration {done}; for more, set a larger "
        f"training.num_epochs in its config.json\n{next_commands(config, folder)}"
    )

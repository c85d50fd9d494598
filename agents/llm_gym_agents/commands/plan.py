"""``llm-gym train`` before and after a run: target, settings and printed plan.

Nothing here needs torch, unless the settings name a model. A wrong flag imports no environment.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.scores import published
from llm_gym.registry.suite import ENVS, word_hint
from llm_gym.registry.user_code import close_user_env, explain_failures
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import CHOSEN, Choice, apply_defaults, get_setting
from llm_gym_agents.config.profile import (
    MAX_TURNS_PLAYED,
    WARM_START_BATCH,
    WORD_S,
    TaskProfile,
    iteration_seconds,
)
from llm_gym_agents.config.rules import unused_settings
from llm_gym_agents.config.store import named, read_config
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.recipes import NAMES, Recipe, find_recipe

# --- what is trained: a recipe, an id or a config file --------------------------------------


def find_suite(parts: Sequence[str]) -> tuple[Recipe, set[str]]:
    """Return a recipe for a part of the suite, and which settings it sets.

    It contains every environment that has a solver and one of ``parts`` in its id.
    """
    ids = [row.id for row in ENVS if any(part.lower() in row.id.lower() for part in parts)]
    mix = {env_id: 1.0 for env_id in ids if "solver" in published().get(env_id, {})}
    if not mix:
        hint = word_hint(*parts) or "; llm-gym list shows the ids"
        raise ConfigError(f"no environment with a solver has {' or '.join(parts)} in its id{hint}")
    config, name = ConfigStore(), "-".join(["suite", *parts]).lower()
    config.environment.mix = mix
    about = f"Training on {config.environment.env_label}."
    return Recipe(name=name, about=about, config=config), {"environment.mix"}


def find_target(target: str, modules: list[str]) -> tuple[Recipe, set[str] | None]:
    """Return the recipe and the settings that it sets; None if it needs no defaults."""
    found = find_recipe(target)
    if found is not None:
        return found, None
    chosen: set[str] = set()
    if target.endswith((".yaml", ".yml", ".json")):
        config = ConfigStore.load(target)
        name, chosen = Path(target).stem, named(read_config(Path(target)))
    else:
        config, name = ConfigStore(), re.split("[/:]", target)[-1]
        # With the module that registers it, so that a run can be resumed.
        entry = gym.registry[target].entry_point if target in gym.registry else None
        home = entry if isinstance(entry, str) else getattr(entry, "__module__", "") or ""
        own = [each for each in modules if each.split(".")[0] == re.split("[.:]", home)[0]]
        config.environment.env_id = f"{own[0]}:{target}" if own else target
    about = f"Training on {config.environment.env_label or target}."
    return Recipe(name=name, about=about, config=config), chosen


def shrink(config: ConfigStore) -> None:
    """Make a run as small as possible: every part runs once."""
    config.training.num_epochs = config.training.num_iters_per_epoch = 1
    config.training.batch_size = config.training.group_size * 2
    config.training.mini_batch_size = config.training.batch_size
    config.warm_start.turns, config.warm_start.steps = min(config.warm_start.turns, 200), 2
    config.warm_start.rounds = 1
    config.training.warmup_iters = config.training.critic_warmup_iters = 0
    config.environment.eval_interval, config.environment.eval_episodes = 1, 4
    config.inference.num_envs, config.environment.workers = 4, min(config.environment.workers, 4)
    config.inference.max_tokens = min(config.inference.max_tokens, 8)
    config.inference.max_turns = min(config.inference.max_turns or 4, 4)


def unused_folder(folder: Path) -> Path:
    """Return ``folder``, or the first of ``folder-2``, ``folder-3``, ... that holds no run."""
    from llm_gym_agents.run.files import is_locked
    from llm_gym_agents.run.metrics import read_metrics

    place, number = folder, 2
    while read_metrics(place) or is_locked(place):
        place, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return place


# --- settings and plan ----------------------------------------------------------------------


def choose(config: ConfigStore, chosen: set[str], *, checks: bool = True) -> list[Choice]:
    """Apply the defaults for this task; return every setting with its value and reason.

    With ``checks``, contradictions that need no torch are raised before it is imported.
    """
    # The command line names a dictionary as a whole; the config knows its keys.
    chosen = chosen | named(config.diff())
    with explain_failures(str(config.environment.env_label)):
        task = _of_task(config)
        if checks:
            draft = config.model_copy(deep=True)
            apply_defaults(draft, task, chosen)
            draft.check(light=True)
        seen = profile_task(config, task)
    return apply_defaults(config, seen, chosen)


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    """Return the choices as a table: setting, value, and the reason for a default."""
    rows = [(each.setting, _value(each), each.reason) for each in choices]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"  {name:<{wide[0]}}  {value:<{wide[1]}}  {why}" for name, value, why in rows]
    head = "settings and why they are the default (change any with --section.setting VALUE):"
    return [head, *lines] if lines else []


def notes(config: ConfigStore, choices: Sequence[Choice]) -> list[str]:
    """Return a note on each setting of the user that has no effect."""
    by_default = tuple(choice.setting for choice in choices if choice.reason != CHOSEN)
    unused = unused_settings(config, config.diff())
    return [f"note: {each}" for each in unused if not each.startswith(by_default)]


def few_choices(choices: Sequence[Choice]) -> list[str]:
    """Return what a run prints first: the user's settings, and the other choices in one line."""
    own = [each for each in choices if each.reason == CHOSEN]
    usual = ConfigStore()
    changed = [each for each in choices if each.value != get_setting(usual, each.setting)]
    rest = sum(each.reason != CHOSEN for each in changed)
    lines = [f"  {each.setting}  {_value(each)}  ({CHOSEN})" for each in own]
    if rest:
        what = f"{rest} setting{'s' * (rest != 1)} chosen for this game and model"
        lines.append(f"{what} (--dry-run lists them with reasons)")
    return lines


def _value(choice: Choice) -> str:
    """Return a value as a user would type it: '' for empty text."""
    return str(choice.value) or "''"


def list_recipes() -> None:
    """Print the recipes and the other possible targets."""
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
        training, env = recipe.config.training, recipe.config.environment.env_label
        takes = f"at most {training.iterations * training.batch_size:,} episodes of {env}"
        say(f"  {name}\n    {recipe.about}\n{expected}    takes: {takes}")
    say(
        "\n--dry-run prints the plan, --smoke tries everything once, --help-settings lists what\n"
        "can be changed, of recipes too, with --section.setting VALUE"
    )


def show_plan(config: ConfigStore, choices: Sequence[Choice]) -> None:
    """Print what a run would do, without starting it."""
    if config.model.device not in ("auto", "cpu"):
        from llm_gym_agents.trainer.build import device_of  # takes seconds

        device_of(config.model.device)
    training, inference = config.training, config.inference
    iterations = training.iterations
    seen = profile_task(config)
    # 16 bytes per weight in float32: the weight, its gradient and two moments of AdamW.
    size = f", {seen.weights / 1e6:,.0f}M weights, {seen.weights * 16 / 2**30:.1f} GiB to train all"
    weights = size if seen.weights else ""
    turns = inference.max_turns or seen.turns or 1
    most = training.batch_size * turns * inference.max_tokens
    steps = training.ppo_epochs * -(-training.batch_size // training.mini_batch_size)
    mix = config.environment.mix
    env = config.environment.env_id
    if mix and len({*mix.values()}) == 1:
        env = f"{len(mix)} games in equal shares: {', '.join(mix)}"
    elif mix:
        env = ", ".join(f"{each / sum(mix.values()):.1%} {name}" for name, each in mix.items())
    model = config.model.model_name
    if config.model.is_embedded:
        model = f"the embedded model ({model})"
    lines = [
        *choice_lines(choices),
        *notes(config, choices),
        f"model        {model}{weights}",
        f"environment  {env}, at most {turns} turns",
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


def _time(config: ConfigStore, seen: TaskProfile) -> str:
    """Return an estimate of the time; it is known only for the embedded model."""
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


# --- the profile of a task ------------------------------------------------------------------

_EPISODES = 20
_SOLVED = 300
"""Turn limit for a solver's episode."""
_PAID_EVERY_TURN = 0.9
"""Share of turns with a positive reward above which longer episodes count as better."""
_BY_SPREAD = {"norm_by_std", "whiten"}
"""Settings by which estimators divide by a standard deviation."""
_MARK = re.compile(r"[^\W\d]+|\d|[^\w\s]")


def profile_task(config: ConfigStore, task: TaskProfile | None = None) -> TaskProfile:
    """Return the profile of the model and the environments in ``config``; ``task`` if played."""
    from llm_gym_agents.algo import get_advantage  # lies behind torch

    estimator = get_advantage(config.training.adv_estimator)
    return replace(
        task or _of_task(config),
        **_of_model(config),
        groups=estimator.needs_groups,
        by_turn="credit" in estimator.settings,
        by_spread=not _BY_SPREAD.isdisjoint(estimator.settings),
    )


def _of_model(config: ConfigStore) -> dict[str, Any]:
    """Return profile fields from a given model's config; empty if it cannot be read."""
    found: dict[str, Any] = {}
    if config.model.is_embedded:
        return found

    from llm_gym_agents.model.load import ModelShape, load_config, load_tokenizer
    from llm_gym_agents.text.chat import ChatFormat

    name, trust = config.model.model_name, config.model.trust_remote_code
    with suppress(ConfigError):  # loading it will say why
        shape = load_config(name, trust_remote_code=trust)
        found["weights"] = ModelShape.of(shape, trust_remote_code=trust).parameters
        tokenizer = load_tokenizer(name, trust_remote_code=trust)
        options = config.inference.template_options
        found["thinks"] = ChatFormat.from_tokenizer(tokenizer, template_options=options).thinks
    return found


def _of_task(config: ConfigStore) -> TaskProfile:
    from llm_gym.wrappers.as_text import make_text  # it imports the whole reader

    model = config.model
    kind: Literal["embedded", "full", "lora"] = "full"
    if model.lora_rank:
        kind = "lora"
    elif model.is_embedded:
        kind = "embedded"
    settings, found = config.environment, {}
    for env_id in settings.env_ids:
        # Rules in the first observation would count as words that are read.
        env = make_text(env_id, **{"rules": "system"} | settings.kwargs_of(env_id))
        try:
            found[env_id] = _of(env, kind)
        finally:
            close_user_env(env)
    task = next(iter(found.values()), TaskProfile(model=kind, env="other"))
    if settings.mix:
        task = _of_mix(found, settings.mix)
    player, is_file = config.warm_start.player, config.warm_start.is_file
    solved = task.solver_turns > 0 and player != "random" and not is_file
    return replace(task, taught=solved or player == "best_random")


def _of_mix(found: Mapping[str, TaskProfile], mix: Mapping[str, float]) -> TaskProfile:
    """Return one profile for several environments: their largest needs and mean lengths."""
    each, kinds = list(found.values()), {one.env for one in found.values()}
    turns = [one.turns for one in each]
    share = {env_id: weight / sum(mix.values()) for env_id, weight in mix.items()}
    kind: Any = next(one for one in ("other", "as_text", "suite") if one in kinds)
    return replace(
        each[0],
        env=kind,
        is_markov=all(one.is_markov for one in each),
        has_potential=any(one.has_potential for one in each),
        has_splits=any(one.has_splits for one in each),
        move_chars=max(one.move_chars for one in each) * all(one.move_chars for one in each),
        turns=None if None in turns else max(filter(None, turns)),
        episode_turns=sum(found[one].episode_turns * share[one] for one in found),
        episode_words=sum(found[one].episode_words * share[one] for one in found),
        worst_reward=min(one.worst_reward for one in each),
        solver_turns=max(one.solver_turns for one in each),
        members=found,
    )


def _of(env: gym.Env[str, str], kind: Literal["embedded", "full", "lora"]) -> TaskProfile:
    from llm_gym.core.env import TextEnv
    from llm_gym.core.game import Game
    from llm_gym.wrappers.as_text import AsText

    bare = env.unwrapped
    seen = _lengths(env)
    if isinstance(bare, TextEnv):
        return TaskProfile(
            model=kind,
            env="suite",
            is_markov=bare.is_markov,
            has_potential=type(bare).potential is not Game.potential,
            has_splits=bare.has_splits,
            turns=bare.max_turns,
            **seen,
        )
    wrapped = env.has_wrapper_attr("book") or isinstance(env, AsText)
    # An environment of Gymnasium's is a Markov decision process: what it shows is its state.
    return TaskProfile(
        model=kind,
        env="as_text" if wrapped else "other",
        is_markov=wrapped,
        turns=env.get_wrapper_attr("book").step_limit() if wrapped else None,
        **seen,
    )


def _lengths(env: gym.Env[str, str]) -> dict[str, Any]:
    """Return the lengths of a random player's moves and episodes, as ``TaskProfile`` fields.

    The solver's moves count, too, because they may be longer.
    """
    from llm_gym.episodes import Trajectory, play_episode
    from llm_gym.wrappers import EpisodeLimits

    moves, played = set[str](), list[Trajectory]()
    if env.has_wrapper_attr("random_action"):
        with suppress(NotImplementedError, ConfigError):
            act, legal = map(env.get_wrapper_attr, ("random_action", "legal_actions"))

            def choose(observation: str) -> str:
                move: str = act()
                moves.update((move, *(legal() or ())))
                return move

            limited = EpisodeLimits(env, MAX_TURNS_PLAYED)
            for seed in range(_EPISODES):
                played.append(play_episode(limited, choose, seed))
    found: dict[str, Any] = {"solver_turns": 0}
    for name in ("solver_action", "oracle_action"):
        with suppress(NotImplementedError, ConfigError, AttributeError):
            solve, limited = env.get_wrapper_attr(name), EpisodeLimits(env, _SOLVED)
            for seed in range(_EPISODES):
                solved = play_episode(limited, lambda _: solve(), seed)  # noqa: B023 - at once
                moves.update(solved.actions)
                if solved.success:
                    found["solver_turns"] = max(found["solver_turns"], solved.num_turns)
            break
    rewards = [reward for episode in played for reward in episode.rewards]
    found["worst_reward"] = min([0.0, *rewards])
    found["move_chars"] = max(map(len, moves), default=0)
    if rewards:
        found["random_wins"] = sum(episode.success for episode in played) / len(played)
        # If every turn is rewarded, training makes episodes longer than random ones.
        longer = sum(reward > 0.0 for reward in rewards) > _PAID_EVERY_TURN * len(rewards)
        found["episode_turns"] = MAX_TURNS_PLAYED / 2 if longer else len(rewards) / len(played)
        texts = (text for each in played for text in (*each.states[:-1], *each.actions))
        words = sum(len(_MARK.findall(text)) for text in texts)
        found["episode_words"] = words / len(rewards) * found["episode_turns"]
    return found


def check_player(config: ConfigStore) -> None:
    """Raise ``ConfigError`` unless each environment has the player that is to be imitated."""
    player = config.warm_start.player
    if player in ("none", "auto") or config.warm_start.is_file:
        return
    from llm_gym.episodes.play import play_reset
    from llm_gym.wrappers.as_text import make_text
    from llm_gym_agents.learn.imitation import find_player  # lies behind torch

    for env_id in config.environment.env_ids:
        env = make_text(env_id, **{"rules": "system"} | config.environment.kwargs_of(env_id))
        try:
            with explain_failures(env_id):
                observation, _ = play_reset(env, seed=0)
                try:
                    find_player(env, player)(observation)
                except ConfigError as error:
                    raise ConfigError(
                        f"{env_id} has no {player} player to imitate; choose another "
                        "warm_start.player (auto takes a solver if there is one, else random moves)"
                    ) from error
        finally:
            close_user_env(env)


# --- what comes next ------------------------------------------------------------------------


def resume_command(config: ConfigStore) -> str:
    """Return the command that resumes a run, with ``--trust`` if it is needed."""
    trust = " --trust" if untrusted(config) else ""
    return f"llm-gym resume {shlex.quote(config.checkpoint.output_dir)}{trust}"


def check_folder(config: ConfigStore) -> bool:
    """Refuse the folder of another run; whether it holds one without a checkpoint."""
    from llm_gym_agents.run.files import check_links, checkpoints
    from llm_gym_agents.run.metrics import read_metrics

    folder = Path(config.checkpoint.output_dir)
    if folder.is_dir():
        check_links(folder)
    if config.checkpoint.resume or not read_metrics(folder):
        return False
    if checkpoints(folder):
        raise ConfigError(
            f"{folder} already holds a run; resume it with '{resume_command(config)}', or choose "
            "another folder with --out"
        )
    return True


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

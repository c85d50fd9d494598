"""Defaults by task: a table that maps a ``TaskProfile`` to settings that work for it.

``RULES`` is the table. A rule applies only to a setting that the user did not set. The first
matching rule wins, and ``train --dry-run`` prints it with its reason. ``docs/settings.md`` lists
all rules.
"""

import copy
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from llm_gym.evaluate import THOUGHT_TOKENS
from llm_gym_agents.config.profile import TaskProfile, iteration_seconds
from llm_gym_agents.config.store import ConfigStore

When = Callable[[TaskProfile], bool]
ENV_KWARGS = "environment.env_kwargs"
MOST_TURNS = 100
"""Turn limit of an environment that has none."""
DECISIONS = 1600
"""Approximate number of turns in a batch."""
OFTEN = 0.6
"""Success of the random player from which the embedded model imitates the reflex player."""
SECONDS = 180
"""Approximate CPU seconds of a run of the embedded model, without its warm start."""
DEEPER = 1.5
"""Cost of an iteration with three layers, relative to two layers."""
ITERATIONS, EVALUATED = 5, 100
"""Iterations of an epoch, and episodes of the evaluation after it."""
SHORT = 10
"""Maximum turns of an episode that counts as short."""
MEASURED_WEIGHTS = 135_000_000
"""Weights of the model that the learning rates were measured on. Larger models get lower rates."""
SHARED = 5
"""Environments of a mix that share one environment's warm start."""
CHOSEN = "chosen by you"


class Rule(NamedTuple):
    """A setting, and its value for some tasks."""

    setting: str
    value: Any
    """The value, or a function of the profile, whose docstring says it in words."""
    when: When
    task: str
    reason: str

    @property
    def shown(self) -> str:
        """The value, for a table."""
        if not callable(self.value):
            return repr(self.value)
        words = str(self.value.__doc__).rstrip(".")
        return words[0].lower() + words[1:]


class Choice(NamedTuple):
    """The value of a setting, and why; the user's own choice has the reason ``CHOSEN``."""

    setting: str
    value: Any
    reason: str


def _always(profile: TaskProfile) -> bool:
    return True


def _model(*kinds: str) -> When:
    return lambda profile: profile.model in kinds


_embedded, _given = _model("embedded"), _model("full", "lora")
_full, _lora = _model("full"), _model("lora")


def _ours(profile: TaskProfile) -> bool:
    return profile.env != "other"


def _foreign(profile: TaskProfile) -> bool:
    return _embedded(profile) and profile.env == "as_text"


def _taught_game(profile: TaskProfile) -> bool:
    return profile.env == "suite" and profile.taught and profile.is_markov


def _endless(profile: TaskProfile) -> bool:
    return profile.env == "as_text" and (profile.turns is None or profile.turns > MOST_TURNS)


def _turns(profile: TaskProfile) -> int:
    """100, or the turns that a solver took."""
    return max(MOST_TURNS, profile.solver_turns)


def _short(profile: TaskProfile) -> int:
    """Characters of the longest move, and 2."""
    return profile.move_chars + 2


def _roomy(profile: TaskProfile) -> int:
    """Characters of the longest move, 32 to 512."""
    return min(512, max(32, profile.move_chars))


def _scaled(words: str, rate: float, power: float, most: float) -> Callable[[TaskProfile], float]:
    """Return a function that scales ``rate``, measured at 135M weights, to a model's size."""

    def scaled(profile: TaskProfile) -> float:
        size = (profile.weights or MEASURED_WEIGHTS) / MEASURED_WEIGHTS
        return float(f"{min(most, rate * size**-power):.1e}")

    scaled.__doc__ = words
    return scaled


_rate = _scaled("2e-5 at 135M weights, 1e-6 at 7B, 1e-3 at most", 2e-5, 0.75, 1e-3)
_lora_rate = _scaled("ten times that of a full model, 1e-3 at most", 2e-4, 0.75, 1e-3)
_value_rate = _scaled("five times learning_rate, 5e-3 at most", 1e-4, 0.75, 5e-3)
_taught_rate = _scaled("5e-5 at 135M weights, 1e-5 at 7B, 1e-3 at most", 5e-5, 0.4, 1e-3)
_lora_taught_rate = _scaled("ten times that of a full model, 3e-3 at most", 5e-4, 0.4, 3e-3)


def _penalty(profile: TaskProfile) -> float:
    """A tenth of the worst reward, at least 0.1; in our games at most half a win in all turns."""
    if profile.env == "suite" and profile.turns:
        return round(min(0.1, 0.5 / profile.turns), 3)
    return round(max(0.1, -profile.worst_reward / 10), 3)


def _episodes(profile: TaskProfile, turns: int, least: int, most: int) -> int:
    """Return a power of 2: enough episodes for so many turns, or 8 per environment of a mix."""
    wanted = min(most, max(least, turns / max(profile.episode_turns, 1.0)))
    # The largest power of 2 below 16 times something is the smallest from 8 times it on.
    wanted = max(wanted, 16 * len(profile.members) - 1)
    return next(size for size in (256, 128, 64, 32, 16) if size <= wanted)


def _batch(profile: TaskProfile) -> int:
    """1,600 turns, 16 to 256 episodes; 8 of each environment of a mix."""
    return _episodes(profile, DECISIONS, 16, 256)


def _given_batch(profile: TaskProfile) -> int:
    """3,200 turns, 32 to 128 episodes; 8 of each environment of a mix."""
    return _episodes(profile, 2 * DECISIONS, 32, 128)


def _evaluated(profile: TaskProfile) -> int:
    """100, or 8 of each environment of a mix."""
    return max(EVALUATED, 8 * len(profile.members))


def _mini_batch(profile: TaskProfile) -> int:
    """A quarter of the batch."""
    return (_batch if _embedded(profile) else _given_batch)(profile) // 4


def _discount(profile: TaskProfile) -> float:
    """1 - 2 / turns of an episode, 0.9 to 0.97."""
    return round(min(0.97, max(0.9, 1.0 - 2.0 / max(profile.episode_turns, 1.0))), 3)


def _epochs(profile: TaskProfile) -> int:
    """About 180 CPU seconds for each environment, 6 to 72 epochs."""
    seconds = SECONDS * max(1, len(profile.members))
    took = iteration_seconds(profile, _batch(profile), _evaluated(profile) / ITERATIONS)
    took *= DEEPER if _taught_game(profile) else 1.0
    return min(72, max(6, round(seconds / (ITERATIONS * took))))


RULES: tuple[Rule, ...] = (
    # --- the model ------------------------------------------------------------------------
    Rule("model.tiny_layers", 3, lambda s: _embedded(s) and _taught_game(s),
         "embedded model, our games with a solver, one observation is the whole state",
         "a deeper model copies a solver better; short texts leave the time for it"),
    # --- what is read and written ---------------------------------------------------------
    Rule("inference.context", "observation", lambda s: s.is_markov,
         "one observation is the whole state", "reading less is several times cheaper"),
    Rule("inference.context", "history", lambda s: not s.is_markov,
         "earlier observations matter", "the model sees the whole episode"),
    Rule(f"{ENV_KWARGS}.rules", "system", _ours,
         "our environments and those in words", "rules are told once, not in every observation"),
    Rule("inference.system_prompt", "", lambda s: _embedded(s) and _ours(s),
         "embedded model", "it knows this game only and cannot read rules"),
    Rule("inference.max_tokens", _short, lambda s: _embedded(s) and s.move_chars > 0,
         "embedded model", "the longest move that was seen, even if it is spelled"),
    Rule("inference.max_tokens", THOUGHT_TOKENS, lambda s: _given(s) and s.thinks,
         "a given model that thinks", "room for a thought before the move"),
    Rule("inference.max_tokens", _roomy, lambda s: _given(s) and s.move_chars > 0,
         "a given model", "room for the longest move that was seen"),
    Rule("inference.max_turns", _turns, _endless,
         "an environment in words that goes on", "more short episodes teach more than a long one"),
    Rule("inference.bootstrap_at_turn_limit", True, _endless,
         "an environment in words that goes on", "the critic estimates the rest of the episode"),
    Rule(f"{ENV_KWARGS}.max_invalid", MOST_TURNS, lambda s: s.env == "as_text" and s.turns is None,
         "an environment in words without an end", "unusable replies must not end it early"),
    # --- rewards --------------------------------------------------------------------------
    Rule(f"{ENV_KWARGS}.penalty", _penalty, _ours,
         "our environments and those in words", "an unusable reply must not be safer than a move"),
    Rule(f"{ENV_KWARGS}.shaping", True, lambda s: s.has_potential,
         "the game knows how near the goal is", "it sums to 0 and rewards every turn"),
    # --- the warm start -------------------------------------------------------------------
    Rule("warm_start.player", "reflex",
         lambda s: _embedded(s) and s.random_wins >= OFTEN and s.env == "suite",
         "embedded model, a game that random moves often win",
         "a small model learns more from a simple player there"),
    Rule("warm_start.player", "auto", _always,
         "any", "without a legal move all rewards are equal"),
    Rule("warm_start.turns", 8000, _embedded, "embedded model", "it has to learn every word"),
    Rule("warm_start.steps", 250, _embedded, "embedded model", "enough for most games"),
    Rule("warm_start.rounds", 4, _always,
         "any", "until most moves are legal, and a solver is imitated well"),
    Rule("warm_start.rate", 3e-3, _embedded, "embedded model", "random weights need a high rate"),
    Rule("warm_start.steps", 120, _given, "a given model", "measured on a 135M model"),
    Rule("warm_start.rate", _taught_rate, _full, "a full model", "it must keep what it knows"),
    Rule("warm_start.rate", _lora_taught_rate, _lora, "adapters", "adapters start at 0"),
    # --- learning -------------------------------------------------------------------------
    Rule("training.batch_size", _batch, _embedded,
         "embedded model", "short episodes carry less signal"),
    Rule("training.batch_size", _given_batch, _given,
         "a given model", "a 0/1 reward needs many episodes; a long game tells more in each"),
    Rule("inference.num_envs", _batch, _embedded,
         "embedded model", "a whole batch is played side by side"),
    Rule("inference.num_envs", _given_batch, _given,
         "a given model", "a whole batch is played side by side"),
    Rule("training.group_size", 8, lambda s: s.groups,
         "an estimator that compares episodes", "fewer of one start seldom differ"),
    Rule("training.estimator_settings.credit", "turn", lambda s: s.by_turn and s.has_potential,
         "such an estimator, shaped rewards", "they sum to 0 over an episode"),
    Rule("training.mini_batch_size", _mini_batch, _always, "any", "four steps from a batch"),
    Rule("training.ppo_epochs", 2, _embedded, "embedded model", "playing costs as much"),
    Rule("training.ppo_epochs", 1, _given, "a given model", "a second pass drifts off policy"),
    Rule("training.learning_rate", 1e-3, _embedded, "embedded model", "0.1M weights"),
    Rule("training.learning_rate", _rate, _full,
         "a full model", "measured at 135M; larger models are trained at lower rates"),
    Rule("training.learning_rate", _lora_rate, _lora, "adapters", "adapters start at 0"),
    Rule("training.value_learning_rate", _value_rate, _full,
         "a full model", "the critic starts at 0"),
    Rule("training.value_learning_rate", 1e-2, _foreign,
         "embedded model, environments in words", "the value head must learn fast"),
    Rule("training.critic_warmup_iters", 2, _foreign,
         "embedded model, environments in words", "an untrained critic blames every token"),
    Rule("training.value_coef", 0.1, _foreign,
         "embedded model, environments in words", "returns in their own units make a larger loss"),
    Rule("training.lr_schedule", "linear", lambda s: s.taught,
         "a solver is imitated", "a good policy has much to lose"),
    Rule("training.max_kl", 0.4,
         lambda s: _embedded(s) and not s.taught and s.episode_turns <= SHORT,
         "embedded model, no solver is imitated, short episodes",
         "from chance there is nothing to lose; in long episodes large steps get stuck"),
    Rule("training.gamma", _discount, _always,
         "any", "it looks half an episode ahead"),
    Rule("training.gae_lambda", 0.9, _always,
         "any", "after ten turns the critic estimates the rest"),
    Rule("training.entropy_coef", 0.002,
         lambda s: _embedded(s) and s.groups and (s.has_potential or not s.by_spread),
         "embedded model, episodes compared turn by turn, or not divided by their spread",
         "such differences are small"),
    Rule("training.entropy_coef", 0.01, _embedded, "embedded model", "exploration must last"),
    Rule("training.normalise_values", True, lambda s: s.env == "as_text",
         "an environment in words", "its rewards may be in the hundreds"),
    Rule("training.adam_eps", 1e-5, _embedded,
         "embedded model", "tokens that are never sampled have tiny gradients"),
    Rule("training.max_grad_norm", 0.5, _embedded, "embedded model", "large gradients are noise"),
    Rule("training.num_epochs", _epochs, _embedded, "embedded model", "a few minutes on a laptop"),
    Rule("training.num_iters_per_epoch", ITERATIONS, _embedded,
         "embedded model", "one evaluation per epoch"),
    # --- evaluation -----------------------------------------------------------------------
    Rule("environment.eval_split", "test", lambda s: s.has_splits,
         "the game can keep instances unseen", "success on what was not trained on"),
    Rule("environment.eval_interval", ITERATIONS, _always, "any", "often enough to keep the best"),
    Rule("environment.eval_episodes", _evaluated, _always, "any", "an interval of 10 points"),
    Rule("environment.stop_at_success", 0.94, _always,
         "any", "little is left to learn"),
)  # fmt: skip


def apply_defaults(
    config: ConfigStore, profile: TaskProfile, chosen: Collection[str] = ()
) -> list[Choice]:
    """Set the defaults that the user did not set; return the value of every setting in the table.

    ``chosen`` has what the user set: ``training.gamma``, ``environment.env_kwargs.shaping``.
    """
    made: dict[str, Choice] = {}
    if profile.members:
        config.environment.env_kwargs = {
            **config.environment.env_kwargs,
            **{each: _own_kwargs(config, each, profile, chosen) for each in profile.members},
        }
        made[ENV_KWARGS] = Choice(ENV_KWARGS, "by id", "what each would get alone")
    for rule in RULES:
        of_member = profile.members and rule.setting.startswith(ENV_KWARGS)
        if rule.setting in made or of_member or not rule.when(profile):
            continue
        if rule.setting in chosen:
            own = get_setting(config, rule.setting)
            made[rule.setting] = Choice(rule.setting, own, CHOSEN)
            continue
        value = rule.value(profile) if callable(rule.value) else rule.value
        _set(config, rule.setting, value)
        made[rule.setting] = Choice(rule.setting, value, rule.reason)
    _fit(config, made, chosen)
    for name in ("warm_start.turns", "warm_start.steps"):
        if len(profile.members) > SHARED and name not in chosen:
            value = get_setting(config, name) * len(profile.members) // SHARED
            _set(config, name, value)
            made[name] = Choice(name, value, f"as for one, for each {SHARED} of the mix")
    return list(made.values())


def _own_kwargs(
    config: ConfigStore, env_id: str, profile: TaskProfile, chosen: Collection[str]
) -> dict[str, Any]:
    """Return the default settings of one environment of a mix, as if it were trained alone."""
    alone = copy.deepcopy(config)
    alone.environment.env_kwargs = own = config.environment.kwargs_of(env_id)
    alone.environment.mix, alone.environment.env_id = {}, env_id
    set_by_user = {*chosen, *(f"{ENV_KWARGS}.{name}" for name in own)}
    apply_defaults(alone, profile.members[env_id], set_by_user)
    return alone.environment.env_kwargs


def _fit(config: ConfigStore, made: dict[str, Choice], chosen: Collection[str]) -> None:
    batch = config.training.batch_size
    for name in ("training.mini_batch_size", "inference.num_envs"):
        if name not in chosen and get_setting(config, name) > batch:
            _set(config, name, batch)
            made[name] = Choice(name, batch, "no more than the batch that you chose")
    name = "training.group_size"
    if name in made and name not in chosen and batch % config.training.group_size:
        fits = math.gcd(batch, config.training.group_size)
        _set(config, name, fits)
        made[name] = Choice(name, fits, "the batch that you chose is cut into groups")


def get_setting(config: ConfigStore, name: str) -> Any:
    """Return a setting by its full name; a third part is a key of a dictionary setting."""
    section, setting, *key = name.split(".")
    value = getattr(getattr(config, section), setting)
    return value.get(key[0]) if key else value


def _set(config: ConfigStore, name: str, value: Any) -> None:
    section, setting, *key = name.split(".")
    if key:
        value = {**getattr(getattr(config, section), setting), key[0]: value}
    setattr(getattr(config, section), setting, value)

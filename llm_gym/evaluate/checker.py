"""``check_text_env``: reports every rule of the contract that an environment breaks.

Gymnasium's own checker runs first. The other checks go beyond the API: the game can be won, no text
crashes it, no observation leaks a secret, and episodes can be repeated and forked. A check that
needs a feature that the environment lacks (such as an oracle) is reported as skipped.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ContractError
from llm_gym.core.outcome import TERMINAL, StopReason
from llm_gym.episodes.play import play_reset, play_step
from llm_gym.evaluate import fairness
from llm_gym.evaluate.fairness import DoesNotApply, game_of, need, play_turns, player_of
from llm_gym.evaluate.scores import measure
from llm_gym.registry.user_code import describe_error, own_place

EPISODES = 40
_ENDLESS = 10**6
INFO_KEYS = ("valid_action", "success", "stop_reason", "reward_terms", "turn")
HOSTILE = {
    "empty": "",
    "blank": " \n\t\n ",
    "NUL": "\x00",
    "lone surrogate": "go \ud800 north",
    "not ascii": "é✓漢字🙂" * 50,
    "right to left": "\u202edrow",
    "letters that only ignore case": "s\u0131x r\u0131ght \u017fouth \u212aey",
    "5,000 digits": "9" * 5000,
    "minus zero": "-0",
    "not a number": "nan",
    "format string": "{0} {x!r} %s %d",
    "unclosed think": "<think>" * 1000 + "go north",
    "only thinking": "<think>go north</think>",
    "unclosed tag": "<action>go north",
    "empty tag": "<action></action>",
    "unclosed box": r"\boxed{" * 1000,
    "nested JSON": '{"action":' * 5000,
    "JSON of another kind": '{"action": ["go"], "x": null}',
    "react without an action": "Thought: hm\nAction:",
    "many lines": "go north\n" * 2000,
    "one megabyte": "go north " * 120_000,
}


class Check(NamedTuple):
    """The result of one check; ``passed`` is None if the check does not apply."""

    name: str
    passed: bool | None
    detail: str = ""


def check_text_env(env: gym.Env[str, str]) -> None:
    """Raise ``ContractError`` with every rule that ``env`` breaks."""
    broken = [check for check in audit(env) if check.passed is False]
    if broken:
        listed = "\n".join(f"- {check.name}: {check.detail}" for check in broken)
        raise ContractError(f"{env} breaks the contract of a text environment:\n{listed}")


def audit(env: gym.Env[str, str]) -> list[Check]:
    """Return the result of every check on ``env``."""
    return [_run(name, check, env.unwrapped) for name, check in CHECKS.items()]


def _run(name: str, check: Callable[[Any], None], env: gym.Env[str, str]) -> Check:
    try:
        check(env)
    except (DoesNotApply, NotImplementedError) as reason:
        return Check(name, None, str(reason))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raised is the finding
        is_ours = isinstance(error, ContractError)
        return Check(name, False, str(error) if is_ours else describe_error(error))
    return Check(name, True)


def _play(env: gym.Env[str, str], seed: int, actions: list[str]) -> list[Any]:
    return [env.reset(seed=seed), *play_turns(env, iter(actions).__next__, len(actions))]


# --- the checks --------------------------------------------------------------------------


def _gymnasium(env: gym.Env[str, str]) -> None:
    # Its render check plays in "human" mode, which prints.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        if env.spec is None:  # nothing to rebuild it from in other render modes
            warnings.filterwarnings("ignore", message=".*not having a spec.*")
        try:
            check_env(env, skip_close_check=True)
        except AssertionError as error:
            hint = _hint(env.observation_space) * ("observation space" in str(error))
            if not hint:
                raise
            raise ContractError(f"{str(error).rstrip('.')}{hint}") from error


def _hint(space: gym.Space[Any]) -> str:
    if type(space) is not gym.spaces.Text:
        return ""
    return "; gymnasium.spaces.Text takes only letters and digits by default; use llm_gym.AnyText"


def _answers(env: gym.Env[str, str]) -> None:
    """Raise ``DoesNotApply`` if what ``reset`` or ``step`` returns has the wrong form."""
    try:
        play_reset(env, seed=0)
        play_step(env, env.action_space.sample())
    except TypeError as error:
        if own_place(error) is None:
            raise DoesNotApply(f"{error}") from error


def _deterministic(env: gym.Env[str, str]) -> None:
    _answers(env)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(12)]
    for seed in range(3):
        first = _play(env, seed, actions)
        _play(env, seed + 100, actions[::-1])
        need(_play(env, seed, actions) == first, f"seed {seed} gave two different episodes")


def _hostile(env: gym.Env[str, str]) -> None:
    _answers(env)
    space = env.observation_space
    for name, text in HOSTILE.items():
        env.reset(seed=0)
        reply = f"the reply {text[:20]!r} ({name})"
        try:
            obs, *_ = env.step(text)
        except Exception as error:
            raise ContractError(f"{reply} raised {error!r}") from error
        need(space.contains(obs), f"{reply} led outside the observation space{_hint(space)}")


def _honest_steps(env: gym.Env[str, str]) -> None:
    game = player_of(env)
    for seed in range(EPISODES):
        obs, info = env.reset(seed=seed)
        shown = game.describe() if isinstance(game, TextEnv) else ""
        need(isinstance(shown, str), f"describe() must return a text, got {shown!r:.60}")
        done, illegal = False, seed % 4 == 0
        while not done:
            _check_info(info)
            need(env.observation_space.contains(obs), "an observation is outside its space")
            action = "???" if illegal else game.random_action()
            obs, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
            illegal = False
            need(not (terminated and truncated), "one cause set both terminated and truncated")
            total = sum(info["reward_terms"].values())
            need(abs(total - float(reward)) < 1e-9, f"reward_terms add up to {total}, not {reward}")
            need(terminated == (info["stop_reason"] in TERMINAL), "terminated without its reason")
        _check_info(info)


def _check_info(info: dict[str, Any]) -> None:
    missing = [key for key in INFO_KEYS if key not in info]
    need(not missing, f"info lacks {', '.join(missing)}")
    need(isinstance(info["stop_reason"], StopReason), "stop_reason must be a StopReason")


def _legal_actions(env: gym.Env[str, str]) -> None:
    game = game_of(env)
    for seed in range(5):
        env.reset(seed=seed)
        for _ in range(3):
            pattern, legal = game.action_pattern(), game.legal_actions()
            drawn = [game.random_action() for _ in range(20)] if legal is None else legal
            for action in [*drawn, *_advice(game)]:
                before = game.snapshot()
                valid = env.step(action)[4]["valid_action"]
                game.restore(before)
                need(valid, f"{action!r} is listed as legal and was refused")
                matches = bool(re.fullmatch(pattern, action))
                need(matches, f"action_pattern does not match {action!r}, which is usable")
            if env.step(game.random_action())[2]:
                break


def _advice(game: TextEnv) -> list[str]:
    """Return the moves of oracle and solver that fit on one line, as patterns require."""
    found = []
    for player in (game.oracle_action, game.solver_action):
        with contextlib.suppress(NotImplementedError):
            found.append(player())
    return [action for action in found if "\n" not in action]


def _oracle(env: gym.Env[str, str]) -> None:
    game, promised, lost = player_of(env), 0.0, []
    for seed in range(EPISODES):
        env.reset(seed=seed)
        promised += game.oracle_value()
        for step in play_turns(env, game.oracle_action, _ENDLESS):
            won = step[4]["success"]
        if not won:
            lost.append(seed)
    # No slack in a game without chance, four standard deviations in one with it.
    slack = 4 * max(promised * (1 - promised / EPISODES), 0.0) ** 0.5
    need(
        abs(EPISODES - len(lost) - promised) <= slack,
        f"the oracle promised {promised:.1f} wins of {EPISODES} and lost the seeds {lost}",
    )


def _ranking(env: gym.Env[str, str]) -> None:
    game = game_of(env)
    chance, solver = (measure(game, player, EPISODES).success for player in ("random", "solver"))
    need(chance < solver, f"a random player wins {chance:.0%}, the solver {solver:.0%}")


def _secret(env: gym.Env[str, str]) -> None:
    game, swapped = game_of(env), 0
    for seed in range(EPISODES):
        env.reset(seed=seed)
        done, rng = False, np.random.default_rng(seed)
        while not done:
            shown = game.describe()
            if game.swap_secret(rng):
                swapped += 1
                need(game.describe() == shown, f"seed {seed}: the text depends on the secret")
            _, _, terminated, truncated, _ = env.step(game.random_action())
            done = terminated or truncated
    if not swapped:
        raise DoesNotApply("swap_secret() found nothing hidden")


def _snapshot(env: gym.Env[str, str]) -> None:
    game = game_of(env)
    for seed in range(5):
        env.reset(seed=seed)
        env.step(game.random_action())
        if game._base_stop is not StopReason.PLAYING:
            continue
        saved, action = game.snapshot(), game.random_action()
        first = env.step(action)
        game.restore(saved)
        need(env.step(action) == first, f"seed {seed}: a restored episode went another way")


def _identity(env: gym.Env[str, str]) -> None:
    game = player_of(env)
    env.reset(seed=5)
    name = game.instance_id()
    env.step(game.random_action())
    need(game.instance_id() == name, "instance_id changed during the episode")
    env.reset(seed=5)
    need(game.instance_id() == name, "instance_id differs between two resets with one seed")


CHECKS: dict[str, Callable[[gym.Env[str, str]], None]] = {
    "passes Gymnasium's own checker": _gymnasium,
    "same seed and actions, same episode": _deterministic,
    "no text raises": _hostile,
    "flags, info and reward terms agree": _honest_steps,
    "legal actions are usable and match the pattern": _legal_actions,
    "oracle_move wins as often as oracle_value() says": _oracle,
    "a random player is below the solver": _ranking,
    "observations do not depend on hidden state": _secret,
    "a snapshot restores exactly": _snapshot,
    "the same task has the same instance_id": _identity,
    **fairness.CHECKS,
}

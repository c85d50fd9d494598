"""Checks that a game is fair: rewards cannot be farmed and no secret leaks.

Tests of the API cannot find these faults: a refused move that changes the game, a shaping potential
that pays more than the game, one instance for all seeds, a solver that has seen the secret.
"""

import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ContractError
from llm_gym.core.game import Game
from llm_gym.core.splits import split_of
from llm_gym.envs.questions.dataset import DatasetEnv


class DoesNotApply(Exception):
    """A check needs a feature that the environment does not have."""


def need(held: bool, sentence: str) -> None:
    """Raise ``ContractError`` with ``sentence`` unless the rule ``held``."""
    if not held:
        raise ContractError(sentence)


def game_of(env: gym.Env[Any, Any]) -> TextEnv:
    """Return ``env`` as a ``TextEnv``, for checks that need one."""
    if not isinstance(env, TextEnv):
        raise DoesNotApply("needs a TextEnv")
    return env


def player_of(env: gym.Env[Any, Any]) -> TextEnv:
    """Return ``env`` for checks that only need its players and instance ids.

    A bridge to another suite has these (``offers_players``) without being a ``TextEnv``.
    """
    return env if getattr(env, "offers_players", False) else game_of(env)  # type: ignore[return-value]


def play_turns(env: gym.Env[str, str], act: Callable[[], str], turns: int) -> Iterator[Any]:
    """Yield the result of each step until the episode is over or ``turns`` are played."""
    for _ in range(turns):
        step = env.step(act())
        yield step
        if step[2] or step[3]:
            return


UNUSABLE = ("???", "no such move", "-1", "999999999", "north north", "[]", "answer")
_SPLIT_INSTANCES = 100
_SEEDS = 400
_GAMES, _TURNS, _UNREADABLE = 10, 1000, "?!"
_ANSWER = 100  # actions of the oracle that are compared


def refusals_change_nothing(env: gym.Env[str, str]) -> None:
    """A refused move changes neither the state of the game nor what follows."""
    game = game_of(env)
    for seed in range(4):
        env.reset(seed=seed)
        for _ in range(2):
            _refuse(env, game)
            if env.step(game.random_action())[2]:
                break


def _refuse(env: gym.Env[str, str], game: TextEnv) -> None:
    for action in [*UNUSABLE, *map(game._base_format.render, game.example_moves())]:
        saved, before = game.snapshot(), _own_state(game)
        if not env.step(action)[4]["valid_action"]:
            changed = _changed_names(before, _own_state(game))
            need(not changed, f"{action!r} was refused, and yet changed {', '.join(changed)}")
        game.restore(saved)


def _own_state(game: TextEnv) -> dict[str, bytes]:
    """Return the game's own state, without that of ``TextEnv``, in a comparable form."""
    state = game._base_state()
    return {name: pickle.dumps(state[name]) for name in state if name not in TextEnv.__slots__}


def _changed_names(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    changed = before.keys() ^ after.keys()
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        # Equal values may be written differently, where one text is stored once or twice.
        if one != other and not np.all(pickle.loads(one) == pickle.loads(other)):
            changed.add(name)
    return sorted(changed)


def potential_in_range(env: gym.Env[str, str]) -> None:
    """The potential stays in [0, 1], and the shaping terms of an episode add up to 0."""
    game = game_of(env)
    if type(game).potential is Game.potential:
        raise DoesNotApply("define potential() to check this")
    shaping, game.shaping = game.shaping, True
    try:
        for seed in range(4):
            for player in (lambda game, _: game.random_action(), _stubborn, _oracle_then_random):
                _play_shaped(env, game, seed, player)
    finally:
        game.shaping = shaping
        env.reset(seed=0)


def _play_shaped(
    env: gym.Env[str, str], game: TextEnv, seed: int, player: Callable[[TextEnv, int], str]
) -> None:
    env.reset(seed=seed)
    terms: list[float] = []
    for step in play_turns(env, lambda: player(game, len(terms)), 60):
        terms.append(step[4]["reward_terms"]["shaping"])
        need(abs(terms[-1]) <= 1.0 + 1e-9, f"a turn is paid {terms[-1]} by shaping")
    if (step[2] or step[3]) and game.shaping_gamma == 1.0:
        need(abs(sum(terms)) < 1e-6, f"shaping adds up to {sum(terms)} over an episode, not to 0")


def _stubborn(game: TextEnv, turn: int) -> str:
    """Repeat one move again and again: into walls, dead ends and refusals."""
    return game.action_space.examples[0]  # type: ignore[attr-defined,no-any-return]


def _oracle_then_random(game: TextEnv, turn: int) -> str:
    if turn % 5 == 4:
        return game.random_action()
    try:
        return game.oracle_action()
    except NotImplementedError:
        return game.random_action()


def several_instances(env: gym.Env[str, str]) -> None:
    """Seeds give different instances: at least two, or a hundred if the game has splits."""
    game = player_of(env)
    if isinstance(game, DatasetEnv):
        raise DoesNotApply("as many as its rows")
    wanted, found = _SPLIT_INSTANCES if game.has_splits else 2, set()
    for seed in range(_SEEDS):
        env.reset(seed=seed)
        found.add(game.instance_id())
        if len(found) >= wanted:
            return
    need(
        not game.has_splits,
        f"{_SEEDS} seeds gave {len(found)} instances, too few for splits; set has_splits = False",
    )
    need(len(found) > 1, f"{_SEEDS} seeds gave one and the same instance")


def splits_share_nothing(env: gym.Env[str, str], draws: int = _SEEDS) -> None:
    """Episodes with the same first observation and the same answer are in the same split."""
    game = player_of(env)
    if not game.has_splits:
        return
    found: dict[str, dict[str, int]] = {}  # first observation → instance → seed
    for seed in range(draws):
        text, _ = env.reset(seed=seed)
        found.setdefault(text, {}).setdefault(game.instance_id(), seed)
    for instances in found.values():
        if len({split_of(name) for name in instances}) < 2:
            continue
        splits: dict[tuple[str, ...], tuple[str, int]] = {}
        for name, seed in instances.items():
            split, before = splits.setdefault(_answer(env, seed), (split_of(name), seed))
            need(
                split == split_of(name),
                f"the seeds {before} and {seed} begin alike and have the same answer, and yet are "
                f"in {split} and in {split_of(name)}; leave out of instance() what differs",
            )


def _answer(env: gym.Env[str, str], seed: int) -> tuple[str, ...]:
    """Return the oracle's actions, or only the last one if it wins by itself."""
    game = player_of(env)
    actions: list[str] = []

    def act() -> str:
        actions.append(game.oracle_action())
        return actions[-1]

    env.reset(seed=seed)
    list(play_turns(env, act, _ANSWER))
    env.reset(seed=seed)
    return tuple(actions[-1:] if env.step(actions[-1])[4]["success"] else actions)


def giving_up_does_not_pay(env: gym.Env[str, str]) -> None:
    """A player with only unusable replies earns no more than a random player."""
    game = player_of(env)
    given_up, chance = (
        sum(_total(env, act, seed) for seed in range(_GAMES)) / _GAMES
        for act in (lambda: _UNREADABLE, game.random_action)
    )
    need(
        given_up <= chance + 1e-9,
        f"replies that cannot be read are paid {given_up:g}, random play {chance:g}; set "
        "worst_reward to the lowest reward of a move",
    )


def _total(env: gym.Env[str, str], act: Callable[[], str], seed: int) -> float:
    env.reset(seed=seed)
    return sum(float(step[1]) for step in play_turns(env, act, _TURNS))


def solver_reads_only_the_transcript(env: gym.Env[str, str]) -> None:
    """The solver gives the same move in any environment, so it depends only on the transcript."""
    game = game_of(env)
    if type(game).solve is Game.solve:
        raise DoesNotApply("define solve() to check this")
    need(
        isinstance(inspect.getattr_static(type(game), "solve"), staticmethod),
        "solve must be a staticmethod of observations and moves",
    )
    need(
        type(game).solver_action is TextEnv.solver_action,
        "solver_action belongs to the base; write solve, which sees the transcript alone",
    )
    for seed in range(4):
        solved = _solver_moves(env, game, seed)
        env.reset(seed=seed + 1000)  # a solver that had stored the secret would now read another
        for observations, moves, move in solved:
            again = type(game).solve(observations, moves)
            need(again == move, f"the solver wrote {move!r}, and {again!r} after another reset")


def _solver_moves(
    env: gym.Env[str, str], game: TextEnv, seed: int
) -> list[tuple[list[str], list[str], str]]:
    """Return up to eight calls of the solver: observations, earlier moves, and its move."""
    env.reset(seed=seed)
    solved: list[tuple[list[str], list[str], str]] = []
    rng = np.random.default_rng(seed)
    while len(solved) < 8:
        transcript = [*game._base_observations], [*game._base_moves]
        move = type(game).solve(*transcript)
        solved.append((*transcript, move))
        game.swap_secret(rng)  # the new secret fits the transcript, too
        again = type(game).solve(*transcript)
        need(again == move, f"the solver wrote {move!r}, and {again!r} for another secret")
        if env.step(game._base_format.render(move))[2]:
            break
    return solved


CHECKS: dict[str, Callable[[gym.Env[Any, Any]], None]] = {
    "a refused move changes nothing": refusals_change_nothing,
    "the potential is in [0, 1]": potential_in_range,
    "there are enough instances": several_instances,
    "giving up does not pay": giving_up_does_not_pay,
    "train and test have no task in common": splits_share_nothing,
    "the solver reads only the transcript": solver_reads_only_the_transcript,
}

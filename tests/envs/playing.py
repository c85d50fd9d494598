"""Playing to the end, for tests of games."""

import numpy as np
from gymnasium.envs.registration import load_env_creator

from llm_gym.registry.suite import ENVS

ENTRY_POINTS = {row.entry_point.split(":")[1].removesuffix("Env"): row.entry_point for row in ENVS}


def game(name, **kwargs):
    """Return the game with this name, with the default settings of its class but for these."""
    return load_env_creator(ENTRY_POINTS[name])(**kwargs)


def start_game(name, seed=0, **given):
    """Return the game on its first turn; what begins with ``_`` is state, the rest settings."""
    env = game(name, **{name: value for name, value in given.items() if name[0] != "_"})
    env.reset(seed=seed)
    vars(env).update({name: value for name, value in given.items() if name[0] == "_"})
    return env


def episodes(name, count, **settings):
    """Yield the game at the beginning of each of ``count`` episodes."""
    env = game(name, **settings)
    for seed in range(count):
        env.reset(seed=seed)
        yield env


def finish(env, player):
    """Let a built-in player end the episode; return the last reward and info."""
    done = False
    while not done:
        _, reward, done, _, info = env.step(getattr(env, f"{player}_action")())
    return reward, info


def final_info(env, player):
    """Let a built-in player end the episode; return the last info."""
    return finish(env, player)[1]


def solver_and_oracle_moves(env, *, seeds):
    """Let the solver, which reads the text alone, play; return its moves and the oracle's."""
    solver, oracle = [], []
    for seed in range(seeds):
        env.reset(seed=seed)
        env.step("nonsense")
        done = False
        while not done:
            oracle.append(env.oracle_action())
            solver.append(env.solver_action())
            done = env.step(solver[-1])[2]
    return solver, oracle


def expected_by_random_play(env):
    """Return the exact (return, success) of a random player, by playing every game there is."""
    saved, legal, totals = env.snapshot(), env.legal_actions(), np.zeros(2)
    for action in legal:
        env.restore(saved)
        _, reward, terminated, _, info = env.step(action)
        later = (0.0, info["success"]) if terminated else expected_by_random_play(env)
        totals += (reward + later[0], later[1])
    return totals / len(legal)

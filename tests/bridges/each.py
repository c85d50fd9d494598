"""One environment of every bridge, so that what holds for all of them is asked of each."""

import gymnasium as gym
import pytest

from llm_gym.registry.bridges import BRIDGES

# What a bridge is made with; a fixture's value stands where its name does.
SETTINGS = {
    "TextArena": ({"env_id": "GuessTheNumber-v0"}, ()),
    "ReasoningGym": ({"dataset": "chain_sum"}, ()),
    "GEM": ({"env_id": "game:GuessTheNumber-v0-easy"}, ()),
    "PettingZoo": ({"module": "pettingzoo.classic.connect_four_v3"}, ()),
    "Verifiers": ({"env_id": "tiny-guess"}, ("verifiers_envs",)),
    "TextWorld": ({"games": "tw_game", "max_turns": 20}, ("tw_game",)),
    "Jericho": ({"games": "tw_game", "max_turns": 20}, ("tw_game",)),
    "ScienceWorld": ({"task": "find-living-thing", "max_turns": 50}, ("java",)),
    "OpenEnv": ({"url": "openenv_server", "observation_field": "text"}, ("openenv_server",)),
}
ROWS = {row.id.removeprefix("llm_gym/").removesuffix("-v0"): row for row in BRIDGES}
each_bridge = pytest.mark.parametrize("bridge", ROWS)


def maker(bridge, request):
    """Return a function that makes an environment of ``bridge``; skip where its suite is not."""
    row, (settings, fixtures) = ROWS[bridge], SETTINGS[bridge]
    pytest.importorskip(row.package, exc_type=ImportError)
    values = {name: request.getfixturevalue(name) for name in fixtures}
    given = {name: values.get(value) or value for name, value in settings.items()}
    given = {name: value if type(value) is int else str(value) for name, value in given.items()}
    return lambda **more: gym.make(row.id, **{**given, **more}).unwrapped

"""One environment of every bridge, so that what holds for all of them is tested on each."""

import gymnasium as gym
import pytest

from llm_gym.registry.suite import BRIDGES

# What a bridge is made with; a fixture's value stands where its name does.
SETTINGS = {
    "TextArena": ({"env_id": "GuessTheNumber-v0"}, ()),
    "ReasoningGym": ({"env_id": "chain_sum"}, ()),
    "GEM": ({"env_id": "game:GuessTheNumber-v0-easy"}, ()),
    "PettingZoo": ({"env_id": "pettingzoo.classic.connect_four_v3"}, ()),
    "TextWorld": ({"games": "tw_game", "max_turns": 20}, ("tw_game",)),
    "Jericho": ({"games": "tw_game", "max_turns": 20}, ("tw_game",)),
    "ScienceWorld": ({"env_id": "find-living-thing", "max_turns": 50}, ("java",)),
    "OpenEnv": ({"url": "openenv_server", "observation_field": "text"}, ("openenv_server",)),
}


def games(bridge, setting, *names, **more):
    return [(bridge, {setting: name, **more}) for name in names]


_COMPOSITE = {"datasets": [{"name": "chain_sum", "weight": 1.0, "config": {}}]}
# More games of the bridges, whose steps must follow from the seed.
STEPPED = [
    *games("TextArena", "env_id", "FrozenLake-v0", "Mastermind-v0", "Bandit-v0", "Blackjack-v0"),
    # A random opponent needs a game that lists its moves.
    *games("TextArena", "env_id", "TicTacToe-v0", "KuhnPoker-v0", "ThreePlayerTicTacToe-v0"),
    *games("ReasoningGym", "env_id", "gsm_symbolic"),
    *games("ReasoningGym", "env_id", "composite", config=_COMPOSITE),
    *games("GEM", "env_id", "game:Mastermind-v0-easy", "game:Minesweeper-v0-easy", "rg:chain_sum"),
    *games("GEM", "env_id", "game:FifteenPuzzle-v0-easy", "game:TowerofHanoi-v0-easy"),
    *games("GEM", "env_id", "game:Game2048-v0-easy"),
    *games("PettingZoo", "env_id", "pettingzoo.classic.tictactoe_v3", "pettingzoo.classic.rps_v2"),
]
# Games that must pass our checker.
CHECKED = [
    *games("TextArena", "env_id", "GuessTheNumber-v0", "FrozenLake-v0", "Mastermind-v0"),
    *games("TextArena", "env_id", "FrozenLake-v0-random", splits=True),
    *games("ReasoningGym", "env_id", "chain_sum", "word_sorting"),
    *games("GEM", "env_id", "game:Mastermind-v0-hard", "game:Minesweeper-v0-easy", splits=True),
    *games("PettingZoo", "env_id", "pettingzoo.classic.tictactoe_v3", "pettingzoo.classic.rps_v2"),
    *games("PettingZoo", "env_id", "pettingzoo.classic.connect_four_v3"),
]
# Games that no text may upset; the two of Inform would read some as orders to their machine.
ANY_TEXT = [
    *games("TextArena", "env_id", "TicTacToe-v0", "Bandit-v0", "Mastermind-v0", "KuhnPoker-v0"),
    *games("TextWorld", "action_format", "raw"),
    *games("Jericho", "action_format", "raw"),
    *games("OpenEnv", "action_field", "message"),
]
# Settings that are refused, and the message.
WRONG = [
    ("GEM", {"env_id": "game:GuessTheNumber"}, "such as game:"),
    ("GEM", {"env_id": "game:FifteenPuzzle-v0-random"}, "FifteenPuzzle-v0-random"),
    ("PettingZoo", {"seat": 2}, "seat"),
    ("PettingZoo", {"env_id": "pettingzoo.classic.tictactoe_v99"}, "env_id"),
    ("PettingZoo", {"opponent": "nobody"}, "opponent must be"),
    ("PettingZoo", {"env_kwargs": {"size": 4}}, "cannot be made"),
    ("ReasoningGym", {"env_id": "countdwn"}, "such as countdown"),
    ("ReasoningGym", {"config": {"numbers": 3}}, "cannot be built"),
    ("ReasoningGym", {"config": {"seed": 3}}, "seed"),
    ("ReasoningGym", {"reward": "points"}, "reward must be"),
    ("TextArena", {"env_id": "TicTacTo-v0"}, "such as TicTacToe"),
    ("TextArena", {"players": 0}, "players must be"),
    ("TextArena", {"opponent": "nobody"}, "opponent must be"),
    ("TextArena", {"env_kwargs": {"levers": 3}}, "cannot make GuessTheNumber-v0"),
    ("TextWorld", {"games": "none.z8"}, "there is no"),
    ("TextWorld", {"games": "."}, r"end in \.z8"),
]
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


def play(env, between=lambda: None):
    """Take 100 random steps from one seed; return what reset and step returned."""
    trace, over = [env.reset(seed=3)], False
    for _ in range(100):
        between()
        if over:
            trace.append(env.reset())
        trace.append(env.step(env.random_action()))
        _, reward, terminated, truncated, info = trace[-1]
        over = terminated or truncated
        assert terminated + truncated <= 1
        assert info["success"] in (True, False)
        assert sum(info["reward_terms"].values()) == reward
    return trace


def check_steps(make):
    """A hundred random steps: the same again with others in between, and in another environment."""
    env, other = make(), make()
    alone = play(env)
    state = {"over": True}

    def disturb():
        if state["over"]:
            other.reset(seed=99)
        _, _, terminated, truncated, _ = other.step(other.random_action())
        state["over"] = terminated or truncated

    assert play(env, disturb) == alone
    assert play(other) == alone
    env.close()
    other.close()

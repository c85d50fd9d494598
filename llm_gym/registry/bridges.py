"""The bridges to other suites, one row each: what they need, and how to get it.

They are registered like any other environment, and are no part of the suite: without the package
there is nothing to list, to score or to check.
"""

from importlib.util import find_spec
from typing import NamedTuple

from llm_gym.core.errors import install_command


class BridgeRow(NamedTuple):
    """One bridge."""

    id: str
    entry_point: str
    package: str
    """The module that must be there."""
    extra: str
    """The extra of llm-gym that brings it."""
    example: str
    """A setting that the suite's environments are chosen by, as ``--set`` takes it."""


BRIDGES = tuple(
    BridgeRow(
        f"llm_gym/{name}-v0",
        f"llm_gym.bridges.{module}:{name}Env",
        package,
        package.replace("_", "-"),
        example,
    )
    for name, module, package, example in (
        ("TextArena", "textarena", "textarena", "env_id=TicTacToe-v0"),
        ("ReasoningGym", "reasoning_gym", "reasoning_gym", "env_id=countdown"),
        ("GEM", "gem", "gem", "env_id=game:GuessTheNumber-v0-easy"),
        ("PettingZoo", "pettingzoo", "pettingzoo", "env_id=pettingzoo.classic.connect_four_v3"),
        ("TextWorld", "text_adventures", "textworld", "games=tw_games/"),
        ("Jericho", "text_adventures", "jericho", "games=zork1.z5"),
        ("ScienceWorld", "scienceworld", "scienceworld", "env_id=boil"),
        ("OpenEnv", "openenv", "openenv", "url=http://127.0.0.1:8000"),
    )
)


def installed(row: BridgeRow) -> bool:
    """Return whether the suite of a bridge is there; it is not imported."""
    try:
        return find_spec(row.package) is not None
    except ImportError:  # of the package that a module should be in
        return False


def install_line(package: str) -> str:
    """Return the command that brings the suite that is imported as ``package``."""
    row = next(row for row in BRIDGES if row.package == package)
    return install_command(row.extra)

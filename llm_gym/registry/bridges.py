"""The bridges to other suites, one row each: what they need, and how to get it.

They are registered like any other environment, and are no part of the suite: without the package
there is nothing to list, to score or to check.
"""

from __future__ import annotations

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


BRIDGES: tuple[BridgeRow, ...] = (
    BridgeRow(
        "llm_gym/TextArena-v0",
        "llm_gym.bridges.textarena:TextArenaEnv",
        "textarena",
        "textarena",
        "env_id=TicTacToe-v0",
    ),
    BridgeRow(
        "llm_gym/ReasoningGym-v0",
        "llm_gym.bridges.reasoning_gym:ReasoningGymEnv",
        "reasoning_gym",
        "reasoning-gym",
        "env_id=countdown",
    ),
    BridgeRow(
        "llm_gym/GEM-v0",
        "llm_gym.bridges.gem:GEMEnv",
        "gem",
        "gem",
        "env_id=game:GuessTheNumber-v0-easy",
    ),
    BridgeRow(
        "llm_gym/PettingZoo-v0",
        "llm_gym.bridges.pettingzoo:PettingZooEnv",
        "pettingzoo",
        "pettingzoo",
        "env_id=pettingzoo.classic.connect_four_v3",
    ),
    BridgeRow(
        "llm_gym/Verifiers-v0",
        "llm_gym.bridges.verifiers:VerifiersEnv",
        "verifiers",
        "verifiers",
        "env_id=gsm8k",
    ),
    BridgeRow(
        "llm_gym/TextWorld-v0",
        "llm_gym.bridges.text_adventures:TextWorldEnv",
        "textworld",
        "textworld",
        "games=tw_games/",
    ),
    BridgeRow(
        "llm_gym/Jericho-v0",
        "llm_gym.bridges.text_adventures:JerichoEnv",
        "jericho",
        "jericho",
        "games=zork1.z5",
    ),
    BridgeRow(
        "llm_gym/ScienceWorld-v0",
        "llm_gym.bridges.scienceworld:ScienceWorldEnv",
        "scienceworld",
        "scienceworld",
        "env_id=boil",
    ),
    BridgeRow(
        "llm_gym/OpenEnv-v0",
        "llm_gym.bridges.openenv:OpenEnvEnv",
        "openenv",
        "openenv",
        "url=http://127.0.0.1:8000",
    ),
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

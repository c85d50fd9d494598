"""The environments of the suite with their levels, and the bridges to other suites.

Entry points are strings, so importing this module loads no environment. The level comes before
the version in an id. A change that can move a score makes a new version; the old row stays
until the next minor release.
"""

import re
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, NamedTuple

import gymnasium as gym


class EnvRow(NamedTuple):
    """One registered configuration of an environment."""

    id: str
    entry_point: str
    kwargs: dict[str, Any] = {}


def _family(
    home: str, usual: dict[str, Any] | None = None, **levels: dict[str, Any]
) -> tuple[EnvRow, ...]:
    """Return the rows of an environment: one with its ``usual`` settings, one for each level."""
    name = home.partition(":")[2].removesuffix("Env")
    return tuple(
        EnvRow(f"llm_gym/{name}{level}-v0", f"llm_gym.envs.{home}", settings)
        for level, settings in {"": usual or {}, **levels}.items()
    )


# fmt: off
ENVS: tuple[EnvRow, ...] = (
    *_family(
        "navigation.text_game.env:TextGameEnv",
        Easy={"rooms": 4, "items": 2, "quest_length": 2, "locks": 0, "hints": 4, "names": 8,
              "style": "terse", "max_turns": 16},
        # No hints: a reflex that sees only the last observation fails here, a memory does not.
        Medium={"rooms": 9, "items": 2, "quest_length": 4, "locks": 1, "names": 12,
                "style": "terse", "max_turns": 28},
        Hard={"rooms": 12, "items": 8, "quest_length": 9, "locks": 2, "max_turns": 100},
    ),
    # The presets Easy and Hard have the parameters of GEM's, so that results compare.
    *_family(
        "deduction.guess_the_number:GuessTheNumberEnv",
        Easy={"low": 1, "high": 10, "max_turns": 4},
        Hard={"low": 1, "high": 50, "max_turns": 7},
    ),
    # FrozenLake and Hard have the parameters of TextArena's; Slippery those of Gymnasium's.
    *_family(
        "navigation.frozen_lake:FrozenLakeEnv",
        {"size": 4, "holes": 3, "max_turns": 100},
        Hard={"size": 5, "holes": 6, "max_turns": 100},
        Slippery={"slip": 2 / 3, "max_turns": 100},
    ),
    # Hard has the parameters of GEM's and Easy its field, with fewer mines: with GEM's five it is
    # harder than the field of Minesweeper-v0, which is TextArena's.
    *_family(
        "deduction.minesweeper:MinesweeperEnv",
        NoGuess={"no_guess": True},
        Easy={"rows": 5, "cols": 5, "mines": 3, "max_turns": 25},
        Hard={"rows": 8, "cols": 8, "mines": 12, "max_turns": 64},
    ),
    # Easy and Hard have the grids of GEM's, whose "clues" are the cells that it empties; Hard has
    # half as many turns again as cells to fill.
    *_family(
        "puzzles.sudoku:SudokuEnv",
        Easy={"size": 4, "clues": 6, "max_turns": 15},
        Hard={"size": 9, "clues": 31, "max_turns": 75},
    ),
    # Easy and Hard have the disks and turns of GEM's, whose start and goal are always the same.
    *_family(
        "puzzles.tower_of_hanoi:TowerOfHanoiEnv",
        Easy={"disks": 3, "max_turns": 10},
        Hard={"disks": 5, "max_turns": 35},
    ),
    # Easy and Hard have the sizes and turns of GEM's, Full those of TextArena's; half of the
    # boards of both cannot be solved.
    *_family(
        "puzzles.fifteen_puzzle:FifteenPuzzleEnv",
        Easy={"size": 2, "scramble": None, "max_turns": 10},
        Hard={"size": 4, "scramble": 50, "max_turns": 50},
        Full={"size": 4, "scramble": None, "max_turns": 200},
    ),
    # CoinCollector, Easy and Hard have the parameters of TextWorld's levels 105, 5 and 210.
    *_family(
        "navigation.coin_collector:CoinCollectorEnv",
        {"level": 5, "dead_ends": 1, "max_turns": 20},
        Easy={"level": 5, "dead_ends": 0, "max_turns": 10},
        Hard={"level": 10, "dead_ends": 2, "max_turns": 50},
    ),
    # Hard has as many rooms, ingredients and distractors as TextWorldExpress's has at most.
    *_family(
        "navigation.cooking_world:CookingWorldEnv",
        Easy={"rooms": 1, "ingredients": 1, "distractors": 2, "containers": 0, "cut": False,
              "max_turns": 12},
        Hard={"rooms": 11, "ingredients": 5, "distractors": 10, "containers": 3, "max_turns": 100},
    ),
    # Easy and Hard have the targets of GEM's; with its turns Easy is harder than Game2048-v0, and
    # Hard cannot be won.
    *_family(
        "puzzles.game_2048:Game2048Env",
        Easy={"target": 64, "max_turns": 60},
        Hard={"target": 512, "max_turns": 350},
    ),
    # Easy is against a random opponent, as in the examples of many trainers.
    *_family(
        "board_games.tic_tac_toe:TicTacToeEnv", Easy={"opponent": 0.0}, Hard={"opponent": 0.7}
    ),
    *_family(
        "board_games.connect_four:ConnectFourEnv", Easy={"opponent": 0.0}, Hard={"opponent": 1.0}
    ),
    # Mastermind has the parameters of TextArena's, Easy those of GEM's, Hard those of both, and
    # Extreme TextArena's again.
    *_family(
        "deduction.mastermind:MastermindEnv",
        Easy={"code_length": 2, "numbers": 6, "max_turns": 10},
        Hard={"code_length": 4, "numbers": 8, "max_turns": 30},
        Extreme={"code_length": 6, "numbers": 12, "duplicates": True, "max_turns": 50},
    ),
    # Sokoban and Hard have the parameters of GEM's easy and hard; Easy those of RAGEN's.
    *_family(
        "puzzles.sokoban:SokobanEnv",
        Easy={"boxes": 1, "min_pushes": 2, "max_turns": 10},
        Hard={"size": 8, "boxes": 4, "min_pushes": 6, "max_turns": 50},
    ),
    # Wordle and Long have the parameters of TextArena's; Easy those of GEM's, whose hard one allows
    # 25 turns and so is easier than Wordle: ours allows 4.
    *_family(
        "deduction.wordle:WordleEnv",
        Long={"word_length": 7, "max_turns": 9},
        Easy={"word_length": 3, "max_turns": 15},
        Hard={"word_length": 5, "max_turns": 4},
    ),
    *_family(
        "navigation.maze:MazeEnv",
        Easy={"size": 3, "max_turns": 20},
        Hard={"size": 10, "max_turns": 200},
        Partial={"loops": 0.1, "view": 2, "max_turns": 100},
    ),
    # Hangman has the lives of TextArena's. Long words show more with every letter, so GEM's levels
    # (3 letters easy, 7 hard) are the wrong way round and not taken over.
    *_family(
        "deduction.hangman:HangmanEnv",
        Easy={"word_length": 7, "lives": 10},
        Hard={"word_length": 5, "lives": 4},
    ),
    # WordLadder, Medium and Hard have the distances and turns of TextArena's.
    *_family(
        "puzzles.word_ladder:WordLadderEnv",
        Easy={"word_length": 3, "min_distance": 2, "max_distance": 3, "hints": True,
              "max_turns": 10},
        Medium={"word_length": 5, "min_distance": 8, "max_distance": 12, "max_turns": 100},
        Hard={"word_length": 5, "min_distance": 13, "max_distance": 15, "max_turns": 100},
    ),
    # Countdown has the numbers and targets of TinyZero's, Hard those of reasoning-gym's,
    # and Steps those of TextArena's, which has one fixed instance.
    *_family(
        "questions.countdown:CountdownEnv",
        Easy={"numbers": 3},
        Hard={"numbers": 6, "max_number": 100, "min_target": 100, "max_target": 999},
        Steps={"numbers": 6, "max_number": 10, "large": 2, "min_target": 100, "max_target": 999,
               "use_all": False, "stepwise": True, "max_turns": 12},
    ),
    # LetterCounting and ChainSum have the parameters of reasoning-gym's.
    *_family("questions.number_question:LetterCountingEnv", Easy={"min_words": 1, "max_words": 3}),
    *_family("questions.number_question:ChainSumEnv", Easy={"max_terms": 2, "max_digits": 1}),
    # By the rules of Gymnasium's Blackjack-v1; Casino has the shoe and the dealer of many casinos.
    *_family("board_games.blackjack:BlackjackEnv", Casino={"decks": 6, "hits_soft_17": True}),
    # Bandit has the parameters of TextArena's, Hard its number of buttons.
    *_family(
        "deduction.bandit:BanditEnv",
        Easy={"arms": 2, "gap": 0.4, "max_turns": 10},
        Hard={"arms": 10, "gap": 0.1, "max_turns": 60},
    ),
    # With tools: Python in the sandbox, search over a collection, and SQL.
    *_family(
        "tool_use.math_python:MathPythonEnv",
        Easy={"steps": 2, "digits": 2},
        Hard={"steps": 8, "digits": 5},
    ),
    *_family(
        "tool_use.search_qa:SearchQAEnv",
        Easy={"hops": 1, "documents": 20, "max_turns": 4},
        Hard={"hops": 4, "documents": 200, "max_turns": 8},
    ),
    *_family(
        "tool_use.text_to_sql.env:TextToSQLEnv",
        Easy={"tables": 1, "rows": 10},
        Hard={"tables": 3, "rows": 50},
    ),
    *_family("micro.echo:EchoEnv"),
    *_family("micro.count:CountEnv"),
    *_family("micro.echo:MemoryEnv"),
    *_family("questions.dataset:DatasetEnv"),
)
# fmt: on


class BridgeRow(NamedTuple):
    """One bridge."""

    id: str
    entry_point: str
    package: str
    """Module that must be installed."""
    extra: str
    """Extra of llm-gym that installs the package."""
    example: str
    """Example of the setting that chooses an environment, as ``--set`` takes it."""


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
    """Return whether the package of a bridge is installed, without importing it."""
    return find_spec(row.package) is not None


_ALIKE = 0.7
"""Similarity of ``difflib`` below which a word is not suggested."""


def word_hint(*parts: str) -> str:
    """Return a hint with the word of an id that is closest to one of ``parts``, or "".

    >>> word_hint("eazy"), word_hint("nothing")
    ('; did you mean easy?', '')
    """
    words = sorted({word.lower() for row in ENVS for word in re.findall("[A-Z][a-z]+", row.id)})
    for part in parts:
        candidates = [word for word in words if abs(len(word) - len(part)) < 3]
        if meant := get_close_matches(part.lower(), candidates, n=1, cutoff=_ALIKE):
            return f"; did you mean {meant[0]}?"
    return ""


# Not part of the suite: these play other people's games, so they have no score.
ADAPTERS = (
    EnvRow("llm_gym/AsText-v0", "llm_gym.wrappers.as_text.env:AsTextEnv"),
    *(EnvRow(row.id, row.entry_point) for row in BRIDGES),
    EnvRow("llm_gym/Remote-v0", "llm_gym.server.remote_env:RemoteEnv"),
)

NEEDS = {
    **{row.id: row.package for row in BRIDGES},
    "llm_gym/Remote-v0": "url=, of a server that llm-gym serve has started",
}
"""What an id needs besides its name: a package or an argument. Loops over all ids skip these."""


def register_envs() -> None:
    """Register the environments and bridges with Gymnasium. Safe to call twice."""
    for row in (*ENVS, *ADAPTERS):
        if row.id not in gym.registry:
            gym.register(
                id=row.id,
                entry_point=row.entry_point,
                kwargs=dict(row.kwargs),
                # TextEnv checks the order of calls by itself, and tests check the rest. Without
                # these wrappers a light game is a third faster.
                order_enforce=False,
                disable_env_checker=True,
            )

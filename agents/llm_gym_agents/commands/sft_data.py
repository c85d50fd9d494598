"""``llm-gym sft-data``: episodes of a built-in player, as data for supervised training.

Two files, one line per episode in each: the conversation, as every supervised trainer reads it
(``{"messages": [...]}``, from the rules to the player's last move), and beside it the episode
record with everything else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import gymnasium as gym

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.parser import Parser, whole
from llm_gym.core.splits import SPLITS
from llm_gym.episodes import Trajectory, play_episode, write_episodes
from llm_gym.errors import ConfigError
from llm_gym.evaluate.scores import PLAYERS
from llm_gym.legacy import as_gym
from llm_gym.registry.user_code import close_user_env


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    out = Path(options.out)
    records = out.with_name(f"{out.name.removesuffix('.jsonl')}.episodes.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    env = as_gym(make(options))
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("w", encoding="ascii") as file:
            kept = write_episodes(records, _export(env, options, file))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
        close_user_env(env)
    sys.stdout.write(
        f"{kept} of {options.episodes} episodes of {options.player} in {options.env}\n"
        f"  {out}  (chat messages)\n  {records}  (episode records)\n"
    )
    return 0


def chat_messages(episode: Trajectory) -> list[dict[str, Any]]:
    """Return the conversation of ``episode`` up to the player's last move.

    What the last move led to is left out: there is nothing to learn in answering it.

    >>> from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
    >>> env = GuessTheNumberEnv(rules="system")
    >>> episode = play_episode(env, lambda _: env.oracle_action(), seed=0)
    >>> [message["role"] for message in chat_messages(episode)]
    ['system', 'user', 'assistant']
    """
    said = [at for at, message in enumerate(episode.messages) if message["role"] == "assistant"]
    return episode.messages[: said[-1] + 1] if said else []


def _export(
    env: gym.Env[str, str], options: argparse.Namespace, file: TextIO
) -> Iterator[Trajectory]:
    """Play, write each conversation into ``file`` and yield its episode."""
    if not env.has_wrapper_attr(f"{options.player}_action"):
        raise ConfigError(
            f"{options.env} brings no {options.player} along; give its class a "
            f"{options.player}_action() that returns a move, or choose another --player"
        )
    kept = 0
    for seed in range(options.seed, options.seed + options.episodes):
        episode = _play(env, options, seed)
        if episode.success or not options.only_won:
            kept += 1
            file.write(json.dumps({"messages": chat_messages(episode)}) + "\n")
            yield episode
    if not kept:
        raise ConfigError(
            f"{options.player} won none of {options.episodes} episodes, so there is nothing to "
            "write; play more, or leave --only-won out"
        )


def _play(env: gym.Env[str, str], options: argparse.Namespace, seed: int) -> Trajectory:
    split = options.split or ("train" if env.get_wrapper_attr("has_splits") else "all")
    act = env.get_wrapper_attr(f"{options.player}_action")
    try:
        return play_episode(
            env,
            lambda _: act(),
            seed,
            None if split == "all" else {"split": split},
            episode_id=seed,
            policy_name=options.player,
        )
    except NotImplementedError as error:
        others = ", ".join(player for player in PLAYERS if player != options.player)
        raise ConfigError(
            f"{options.env} has no {options.player}: {error}; try --player with {others}"
        ) from error


def _parser() -> Parser:
    parser = Parser(
        prog="llm-gym sft-data",
        description="Write episodes of a built-in player as chat messages and episode records.",
    )
    parser.add_argument("env", help="an id such as llm_gym/TextGame-v0, or module:EnvClass")
    parser.add_argument("--episodes", type=whole(1), default=1000, help="episodes to play (1000)")
    parser.add_argument("--player", choices=PLAYERS, default="solver", help="who plays (solver)")
    parser.add_argument(
        "--split",
        choices=(*SPLITS, "all"),
        help="which instances (train where the environment has splits, else all)",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first episode (0)")
    parser.add_argument("--only-won", action="store_true", help="leave out episodes that were lost")
    parser.add_argument("--out", default="sft.jsonl", help="file of the conversations (sft.jsonl)")
    add_settings(parser)
    return parser

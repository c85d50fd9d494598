"""``llm-gym play``: a person, or one of the built-in players, plays in the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing

import gymnasium as gym

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.parser import number, whole
from llm_gym.core.infos import find_system_prompt
from llm_gym.core.outcome import stop_reason
from llm_gym.errors import ConfigError
from llm_gym.evaluate.scores import PLAYERS
from llm_gym.registry.user_code import explain_failures

HELP = "play an environment in the terminal"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "env",
        nargs="?",
        help="an id such as llm_gym/TextGame-v0 or CartPole-v1, or module:Class; with --model of a "
        "run what it was trained on",
    )
    parser.add_argument("--seed", type=whole(0), help="which episode (default: a random one)")
    parser.add_argument("--player", choices=PLAYERS, help="watch this player instead")
    # Read by the trainer's ``play``, which takes over; here for the help.
    parser.add_argument("--model", help="watch a model instead: the folder of a run, or its own")
    parser.add_argument(
        "--temperature", type=number(0), default=1.0, help="with --model: 0 is greedy (1)"
    )
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Play one episode."""
    if options.env is None:
        raise ConfigError("name an environment to play; llm-gym list shows them")
    env = make(options)
    with explain_failures(options.env), closing(env):
        return _play(env, options)


def _play(env: gym.Env[str, str], options: argparse.Namespace) -> int:
    obs, _ = env.reset(seed=options.seed)
    prompt = find_system_prompt(env)
    _say(f"{prompt}\n\n{obs}" if prompt else obs)
    if options.player is None:
        _say("\n(? lists the moves, quit ends the game)")
    choose = _watch(options.player, options.env) if options.player else _ask
    total, turns, done = 0.0, 0, False
    while not done:
        action = choose(env)
        if action is None:
            _say("Goodbye.")
            return 0
        obs, reward, terminated, truncated, info = env.step(action)
        total, turns = total + float(reward), turns + 1
        done = terminated or truncated
        _say(f"\n{obs}")
    reason = stop_reason(terminated, truncated, info)
    turns = info.get("turn", turns)
    _say(f"\n[{reason} after {turns} turn{'s' * (turns != 1)}, return {total:g}]")
    return 0


def _watch(player: str, name: str) -> Callable[[gym.Env[str, str]], str | None]:
    def choose(env: gym.Env[str, str]) -> str | None:
        try:
            action: str = env.get_wrapper_attr(f"{player}_action")()
        except (AttributeError, NotImplementedError) as error:
            raise ConfigError(f"{name} has no {player} to watch: {error}") from error
        _say(f"\n> {action}")
        return action

    return choose


def _ask(env: gym.Env[str, str]) -> str | None:
    while True:
        try:
            text = input("\n> ")
        except EOFError:
            return None
        if text.strip() == "quit":
            return None
        if text.strip() != "?":
            return text
        told = env.has_wrapper_attr("legal_actions")
        legal = env.get_wrapper_attr("legal_actions")() if told else None
        _say("  ".join(legal) if legal else "There are too many moves to list.")


def _say(text: str) -> None:
    # A lone surrogate, typed or pasted, cannot be encoded for a terminal.
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")
    sys.stdout.flush()

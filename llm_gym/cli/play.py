"""``llm-gym play``: a person, or one of the built-in players, plays in the terminal."""

import argparse
import re
from collections.abc import Callable
from contextlib import closing, suppress

import gymnasium as gym

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.parser import number, whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_system_prompt
from llm_gym.core.outcome import stop_reason
from llm_gym.episodes.play import play_reset, play_step, text_of
from llm_gym.evaluate.players import built_in_player
from llm_gym.evaluate.scores import PLAYERS
from llm_gym.registry.user_code import explain_failures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "env",
        nargs="?",
        help="an id such as llm_gym/TextGame-v0 or CartPole-v1, or module:Class; optional if "
        "--model is a run",
    )
    parser.add_argument("--seed", type=whole(0), help="seed of the episode (default: random)")
    parser.add_argument("--player", choices=PLAYERS, help="watch a built-in player")
    # Read by the trainer's ``play``, which takes over; here for the help.
    parser.add_argument("--model", help="watch a model: folder of a run or of a model")
    parser.add_argument(
        "--temperature", type=number(0), default=1.0, help="temperature of --model (1)"
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
    obs, _ = play_reset(env, seed=options.seed)
    text_of(obs, options.env)
    choose = _watch(env, options) if options.player else _ask
    prompt = find_system_prompt(env)
    say(f"{prompt}\n\n{obs}" if prompt else obs)
    if options.player is None:
        say("\n(? lists the moves, quit ends the game; neither costs a turn)")
    total, turns, done = 0.0, 0, False
    while not done:
        action = choose(env)
        if action is None:
            say("Goodbye.")
            return 0
        obs, reward, terminated, truncated, info = play_step(env, action)
        text_of(obs, options.env)
        total, turns = total + float(reward), turns + 1
        done = terminated or truncated
        say(f"\n{obs}")
    reason = stop_reason(terminated, truncated, info)
    turns = info.get("turn", turns)
    say(f"\n[{reason} after {turns} turn{'s' * (turns != 1)}, return {total:g}]")
    return 0


def _watch(
    env: gym.Env[str, str], options: argparse.Namespace
) -> Callable[[gym.Env[str, str]], str | None]:
    act = built_in_player(env, options.player, options.env, options.seed)
    first = [act()]  # now, so that a missing player is reported before the rules are printed

    def choose(_: gym.Env[str, str]) -> str | None:
        action = first.pop() if first else act()
        say(f"\n> {action}")
        return action

    return choose


_KEY = re.compile(r"(\x1b(\[[0-9;]*[A-Za-z~]|O?.)?|[\x00-\x1a])+")
"""A key that a terminal without line editing sends as text, such as an arrow."""


def _ask(env: gym.Env[str, str]) -> str | None:
    """Return the move that a person types; an input that is not a move costs no turn."""
    with suppress(ImportError):  # Windows has none
        import readline  # noqa: F401 - ``input`` has line editing and a history with it
    while True:
        try:
            text = input("\n> ")
        except EOFError:
            return None
        listed = env.has_wrapper_attr("legal_actions")
        legal = list((env.get_wrapper_attr("legal_actions")() if listed else None) or ())
        word = text.strip()
        if word == "quit" and word not in legal:
            return None
        if word in ("?", "help") and word not in legal:
            say(_moves(env, legal))
        elif word and not _KEY.fullmatch(word):
            return text


def _moves(env: gym.Env[str, str], legal: list[str]) -> str:
    examples = [str(each) for each in getattr(env.action_space, "examples", ())]
    if legal:
        return f"moves: {'  '.join(legal)}"
    if examples:
        return f"moves, for example: {'  '.join(examples)}"
    return "The game has no list of its moves."

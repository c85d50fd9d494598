"""``llm-gym replay``: play saved episodes again and report any difference."""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from llm_gym.cli.parser import whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError, LLMGymError, RecordError
from llm_gym.core.text import shown
from llm_gym.registry.user_code import close_user_env

_SHOWN = 5  # episodes that cannot be played, and lines that are no records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("file", type=Path, help="a file of episode records")
    parser.add_argument("--limit", type=whole(1), help="only the first N episodes")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run any code that the file names: environments, wrappers and tools",
    )


def run(options: argparse.Namespace) -> int:
    """Print every difference; return 1 if there was one, 2 if an episode could not be played."""
    from llm_gym.episodes import read_episodes
    from llm_gym.episodes.replay import rebuild, replay

    if not options.file.is_file():
        is_folder = options.file.is_dir()
        why = "it is a folder; pass a .jsonl file" if is_folder else "there is no such file"
        raise ConfigError(f"cannot read {options.file}: {why}")
    if options.trust:
        sys.path.insert(0, "")  # like ``python -m``: modules beside the user are found
    same = different = 0
    failed: list[str] = []
    bad: list[RecordError] = []
    episodes = read_episodes(options.file, torn="skip", on_bad=bad.append)
    for number, episode in enumerate(islice(episodes, options.limit), 1):
        env_id = shown(f"{episode.env_id!s:.100}")
        name = f"episode {number} ({env_id}, seed {episode.seed!r:.40})"
        try:
            env = rebuild(episode, trust=options.trust)
            try:
                difference = replay(env, episode)
            finally:
                close_user_env(env)
        except LLMGymError as error:
            failed.append(f"{name} cannot be played again: {error}")
            continue
        if difference:
            different += 1
            say(f"{name} differs: {difference}")
        else:
            same += 1
    lost = len(failed) + len(bad)
    if lost == len(bad) and not same + different:
        why = f"{bad[0]}".removeprefix(f"{options.file}, ") if bad else "it is empty"
        raise ConfigError(f"{options.file} holds no episodes: {why}")
    _print_some(failed, "episodes")
    _print_some([f"{line}; skipped" for line in bad], "lines")
    say(f"{same} the same, {different} different, {lost} not played")
    return 2 if lost else int(different > 0)


def _print_some(lines: Sequence[str], what: str) -> None:
    for line in lines[:_SHOWN]:
        say(line)
    if len(lines) > _SHOWN:
        say(f"... and {len(lines) - _SHOWN} more such {what}")

"""``llm-gym replay``: play saved episodes again and report any difference."""

import argparse
import sys
from pathlib import Path

from llm_gym.cli.parser import whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError, LLMGymError, RecordError
from llm_gym.core.text import shown
from llm_gym.registry.user_code import close_user_env

_SHOWN = 5  # lines that are no records


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
    same = different = failed = 0
    bad: list[RecordError] = []
    episodes = read_episodes(options.file, torn="skip", on_bad=bad.append)
    for number, episode in enumerate(episodes, 1):
        if options.limit is not None and number > options.limit:
            break
        named = shown(f"{episode.env_id!s:.100}")
        name = f"episode {number} ({named}, seed {episode.seed!r:.40})"
        try:
            env = rebuild(episode, trust=options.trust)
            try:
                difference = replay(env, episode)
            finally:
                close_user_env(env)
        except LLMGymError as error:
            failed += 1
            say(f"{name} cannot be played again: {error}")
            continue
        same += not difference
        different += bool(difference)
        if difference:
            say(f"{name} differs: {difference}")
    for line in bad[:_SHOWN]:
        say(f"{line}; skipped")
    if len(bad) > _SHOWN:
        say(f"... and {len(bad) - _SHOWN} more such lines")
    failed += len(bad)
    if not same + different + failed:
        raise ConfigError(f"{options.file} holds no episodes")
    say(f"{same} the same, {different} different, {failed} not played")
    return 2 if failed else int(different > 0)

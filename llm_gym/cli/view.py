"""``llm-gym view``: look at runs and episodes in a browser, or write them into one page."""

import argparse
from pathlib import Path

from llm_gym.cli.parser import whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    about = "a run's folder, a folder of records, or one file"
    parser.add_argument("places", nargs="+", type=Path, metavar="RUN", help=about)
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write one HTML file that needs no server, and exit",
    )
    parser.add_argument(
        "--limit", type=whole(1), help="with --export: at most N episodes of each file"
    )
    parser.add_argument(
        "--port", type=whole(0, 65535), default=0, help="port (default: a free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or write the page."""
    from llm_gym.view.export import write_export
    from llm_gym.view.live_server import open_browser
    from llm_gym.view.server import ViewServer
    from llm_gym.view.sources import open_sources

    if options.limit is not None and options.export is None:
        raise ConfigError("--limit goes with --export")
    sources = open_sources(options.places)
    for source in sources:
        if not (source.files or source.metrics.rows or source.config()):
            runs = sorted(path.parent for path in source.place.glob("*/metrics.jsonl"))
            hint = f"; name a run in it, such as {runs[-1]}" if runs else ""
            raise ConfigError(f"{source.place} holds no run and no episodes{hint}")
    if options.export is not None:
        size = write_export(sources, options.export, options.limit)
        say(f"{options.export}: {size / 2**20:.1f} MiB, open it in any browser")
        return 0
    try:
        server = ViewServer(sources, options.port)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on port {options.port}: {error}") from error
    with server:
        say(f"{server.url} (Ctrl-C ends it)")
        if not options.no_browser:
            open_browser(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0

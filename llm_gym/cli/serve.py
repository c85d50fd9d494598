"""``llm-gym serve``: an environment over HTTP."""

import argparse
import os
from dataclasses import fields

from llm_gym.cli.common import add_settings, make, settings
from llm_gym.cli.parser import add_repeated, whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_types
from llm_gym.core.text import did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    from llm_gym.server.protocol import PLAYERS, TOKEN_VARIABLE
    from llm_gym.server.sessions import ServerLimits

    parser.add_argument("env", help="an id such as llm_gym/TextGame-v0, or module:EnvClass")
    parser.add_argument(
        "--port", type=whole(0, 65535), default=8765, help="port (8765); 0 takes a free one"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=f"address (127.0.0.1); any other address needs a token in {TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--players",
        nargs="*",
        choices=PLAYERS,
        default=["solver", "random"],
        help="built-in players that clients may ask for a move (default: solver random)",
    )
    parser.add_argument(
        "--threads",
        type=whole(0),
        help="threads that step environments; 0 uses the event loop (default: by environment)",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve https with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="key of the certificate")
    known = ", ".join(
        f"{field.name}={field.default} ({field.metadata['help']})" for field in fields(ServerLimits)
    )
    add_repeated(parser, "--limit", f"how much one player may use: {known}")
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from llm_gym.server.protocol import TOKEN_VARIABLE
    from llm_gym.server.run import EnvServer
    from llm_gym.server.sessions import ServerLimits

    if (options.tls_cert is None) != (options.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key belong together; give both")
    limits = settings(options.limit, "--limit")
    known = [field.name for field in fields(ServerLimits)]
    for name in limits.keys() - set(known):
        raise ConfigError(f"--limit has no {name!r}{did_you_mean(name, known)}")
    check_types(ServerLimits, limits)
    server = EnvServer(
        lambda: make(options),
        options.env,
        host=options.host,
        port=options.port,
        token=os.environ.get(TOKEN_VARIABLE, "").strip() or None,
        limits=ServerLimits(**limits),
        players=options.players,
        threads=options.threads,
        tls=(options.tls_cert, options.tls_key) if options.tls_cert else None,
    )
    say(f"{options.env} at {server.url} (Ctrl-C ends it)")
    server.run()
    return 0

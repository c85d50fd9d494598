"""``llm-gym eval --endpoint URL``: a served model plays. Needs the extra ``endpoint``, no torch."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from llm_gym.cli.common import build, import_modules, settings
from llm_gym.cli.eval_common import add_arguments, chosen, show
from llm_gym.cli.parser import Parser, number, whole
from llm_gym.endpoint import Backoff, EndpointError, Interrupted, Prices, ServedEvaluation, play
from llm_gym.registry.user_code import close_user_env


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    names = chosen(options)
    import_modules(options)
    for name in names:  # built before anybody is asked
        close_user_env(build(name, {"rules": "system", **settings(options.set)}))
    prices = None
    if options.price_in is not None or options.price_out is not None:
        prices = Prices(options.price_in or 0.0, options.price_out or 0.0)
    results: list[ServedEvaluation] = []
    try:
        for name in names:
            results.append(_play(name, prices, options))
    except (EndpointError, Interrupted) as error:
        if error.result is not None:
            results.append(error.result)
        if results:
            show(results, options.json)
        raise
    return show(results, options.json)


def _play(name: str, prices: Prices | None, options: argparse.Namespace) -> ServedEvaluation:
    file = Path(options.out, f"{re.sub('[/:]', '_', name)}.jsonl") if options.out else None
    return play(
        name,
        options.endpoint,
        options.model,
        options.episodes,
        num_envs=options.num_envs,
        seed=options.seed,
        split=options.split,
        context=options.context,
        system_prompt=options.system_prompt,
        max_turns=options.max_turns,
        prices=prices,
        records=file,
        on_end=_progress(name, options.episodes),
        env_kwargs=settings(options.set),
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        body=settings(options.body, "--body"),
        key_env=options.key_env,
        timeout=options.timeout,
        backoff=Backoff(tries=options.tries),
    )


def _progress(name: str, episodes: int) -> Callable[[int], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(ended: int) -> None:
        text = f"\r{name}: {ended} of {episodes} episodes"
        sys.stderr.write(text if ended < episodes else f"\r{' ' * len(text)}\r")
        sys.stderr.flush()

    return tell


def _parser() -> Parser:
    parser = Parser(
        prog="llm-gym eval",
        description="Let a model play that is served over an OpenAI-compatible API, and report "
        "success with its 95 % interval. The API key is read from the environment variable "
        "LLM_GYM_API_KEY, for OpenAI itself also from OPENAI_API_KEY.",
    )
    parser.add_argument("--endpoint", required=True, metavar="URL", help="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", required=True, help="the name it is served under")
    add_arguments(parser)
    parser.add_argument("--key-env", metavar="NAME", help="the variable that holds the API key")
    parser.add_argument(
        "--price-in", type=number(0), metavar="PRICE", help="of a million tokens that are read"
    )
    parser.add_argument(
        "--price-out", type=number(0), metavar="PRICE", help="of a million tokens that are written"
    )
    parser.add_argument(
        "--max-turns", type=whole(1), metavar="N", help="cut an episode after so many turns"
    )
    parser.add_argument(
        "--body",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field of every request, such as --body reasoning_effort=low; null leaves one out "
        "(repeatable)",
    )
    parser.add_argument(
        "--timeout", type=number(1e-3), default=600.0, help="seconds until a reply must be there"
    )
    parser.add_argument(
        "--tries", type=whole(1), default=6, help="requests for a reply before giving up"
    )
    return parser

"""Parsers of what models write: calls of tools, answers, and what is wrong with the rest."""

from llm_gym.errors import ConfigError
from llm_gym.parsing.base import ActionParser, Parsed, ToolCall
from llm_gym.parsing.function_calling import STYLES, FunctionCallingParser
from llm_gym.parsing.json_parser import JSONActionParser
from llm_gym.parsing.react import ReActActionParser

__all__ = [
    "PARSERS",
    "ActionParser",
    "FunctionCallingParser",
    "JSONActionParser",
    "Parsed",
    "ReActActionParser",
    "ToolCall",
    "get_parser",
]

PARSERS = ("json", "react", *STYLES)
"""Names that ``get_parser`` knows."""


def get_parser(parser: str | ActionParser) -> ActionParser:
    """Return the parser called ``parser``; one that is given is returned as it is.

    >>> get_parser("react").parse("Final Answer: 2").answer
    '2'
    """
    if isinstance(parser, ActionParser):
        return parser
    if parser not in PARSERS:
        raise ConfigError(f"parser must be one of {', '.join(PARSERS)}, got {parser!r}")
    if parser == "json":
        return JSONActionParser()
    return ReActActionParser() if parser == "react" else FunctionCallingParser(parser)

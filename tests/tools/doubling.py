"""A tool that doubles a number, and calls of tools as a model writes them."""

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import get_parser
from llm_gym.tools import tool

GAME = "llm_gym/GuessTheNumber-v0"


@tool
def double(number: int) -> int:
    """Double it."""
    return 2 * number


def call(name, parser="json", **arguments):
    return get_parser(parser).render([ToolCall(name, arguments)])

r"""How a model writes a move: one game, six action formats.

A *move* is in the game's language (``go north``); an *action* is the text of a model
(``<think>...</think>\n<action>go north</action>``). A format converts one into the other, explains
itself in the rules, and gives the regex for constrained decoding. Its parser accepts only the exact
format; other modules of ``llm_gym.reading`` handle other replies. Every parser takes linear time
and returns ``None`` if it finds no move: model text never raises.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_REACT = re.compile(r"^[ \t]*action[ \t]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_TRIES = 32  # candidates that are tried, from the end; this bounds the cost of hostile nesting
_TAIL = 20_000  # characters from the end that are searched for a box or an object


def drop_thinking(text: str) -> str:
    r"""Return ``text`` without its reasoning.

    An unclosed ``<think>`` hides everything after it; a lone ``</think>`` everything before it,
    because some chat templates open the tag in the prompt.

    >>> drop_thinking("<think>go south?</think>go north")
    'go north'
    >>> drop_thinking("north it is</think>\ngo north")
    '\ngo north'
    """
    if "think>" not in text:
        return text
    return _THINK.sub("", text).rpartition("</think>")[2]


def parse_plain(text: str) -> str | None:
    r"""Return the last non-empty line.

    >>> parse_plain("I should leave.\n\n go north \n")
    'go north'
    """
    text = text.strip()
    return (text.rpartition("\n")[2].strip() if "\n" in text else text) or None


def parse_raw(text: str) -> str | None:
    r"""Return the whole reply: for tool callers, and for templates that say how to answer.

    >>> parse_raw(" python: x = 1\nprint(x)\n")
    'python: x = 1\nprint(x)'
    """
    return text.strip() or None


def parse_tag(text: str) -> str | None:
    """Return the content of the last closed ``<action>`` tag.

    >>> parse_tag("<action>look</action> or rather <action> go north </action>")
    'go north'
    """
    head, closing, _ = text.rpartition("</action>")
    _, opening, move = head.rpartition("<action>")
    return (move.strip() or None) if closing and opening else None


def parse_boxed(text: str) -> str | None:
    r"""Return the content of the last closed ``\boxed{}``, which may contain balanced braces.

    >>> parse_boxed(r"so \boxed{7}")
    '7'
    """
    text = text[-_TAIL:]
    end = len(text)
    for _ in range(_TRIES):
        end = text.rfind(r"\boxed{", 0, end)
        if end < 0:
            return None
        depth = 0
        for at in range(end + 6, len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if depth == 0:
                return text[end + 7 : at].strip() or None
    return None


def parse_json(text: str) -> str | None:
    r"""Return the ``action`` of the last JSON object that has one.

    >>> parse_json('```json\n{"action": "go north"}\n```')
    'go north'
    """
    text = text[-_TAIL:]
    decoder, end = json.JSONDecoder(), len(text)
    for _ in range(_TRIES):
        end = text.rfind("{", 0, end)
        if end < 0:
            return None
        try:
            found, _ = decoder.raw_decode(text, end)
        except (ValueError, RecursionError):
            continue
        move = found.get("action") if isinstance(found, dict) else None
        if isinstance(move, str):
            return move.strip() or None
    return None


def parse_react(text: str) -> str | None:
    r"""Return what follows the last line that begins with ``Action:``.

    >>> parse_react("Thought: the exit is north.\nAction: go north\nObservation: a hall")
    'go north'
    """
    found = _REACT.findall(text)
    return (found[-1].strip() or None) if found else None


def _json_escape(move: str) -> str:
    return json.dumps(move)[1:-1]


class ActionFormat(NamedTuple):
    """One way to write a move."""

    name: str
    parse: Callable[[str], str | None]
    """Finds the move in a text whose reasoning has been dropped."""
    how: str
    """How to answer, for the rules, with ``{}`` where an example goes and ``{what}`` for a move."""
    prefix: str = ""
    suffix: str = ""
    prefix_pattern: str = ""
    """Regex of the prefix, if it is not literal."""
    escape: Callable[[str], str] = str
    mark: str = ""
    """Text that every action in this format contains exactly once; empty if there is none."""

    def render(self, move: str) -> str:
        return f"{self.prefix}{self.escape(move)}{self.suffix}"

    def tell(self, move: str, what: str = "move") -> str:
        r"""Return how to answer, with ``move`` as the example; ``what`` is the rules' name for it.

        >>> from llm_gym.core.settings import get_format
        >>> get_format("tag").tell("7", "guess")
        'Write your guess between action tags.\nExample of the form: <action>7</action>'
        """
        return self.how.format(self.render(move), what=what)

    def pattern(self, moves: Iterable[str] | str) -> str:
        """Return a regex of the actions for ``moves``: a list of moves, or a regex."""
        if not isinstance(moves, str):
            moves = "|".join(re.escape(self.escape(move)) for move in moves)
        prefix = self.prefix_pattern or re.escape(self.prefix)
        return f"{prefix}(?:{moves}){re.escape(self.suffix)}"


FORMATS: dict[str, ActionFormat] = {
    form.name: form
    for form in (
        ActionFormat(
            "plain",
            parse_plain,
            "Write your {what} on the last line of your reply, and nothing else on that line.\n"
            "Example of the form: {}",
        ),
        ActionFormat(
            "tag",
            parse_tag,
            "Write your {what} between action tags.\nExample of the form: {}",
            "<action>",
            "</action>",
            mark="<action>",
        ),
        ActionFormat(
            "boxed",
            parse_boxed,
            "Write your {what} in a LaTeX box.\nExample of the form: {}",
            r"\boxed{",
            "}",
            mark=r"\boxed{",
        ),
        ActionFormat(
            "json",
            parse_json,
            "Write your {what} as a JSON object.\nExample of the form: {}",
            '{"action": "',
            '"}',
            escape=_json_escape,
            mark='"action"',
        ),
        ActionFormat(
            "react",
            parse_react,
            "Write your thought on one line and your {what} on the next.\nExample of the form:\n{}",
            "Thought: here is why.\nAction: ",
            prefix_pattern=r"Thought: [^\n]{1,400}\nAction: ",
            mark="Action:",
        ),
        ActionFormat("raw", parse_raw, ""),
    )
}

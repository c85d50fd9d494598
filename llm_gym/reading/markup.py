r"""Stage 1: a reply without reasoning, chat templates and markup; and its markers.

``visible`` removes the reasoning and the control tokens. ``undress`` removes markup around a move.
``find_markers`` finds explicit marks of a move: tags, a LaTeX box, JSON, a label such as
``**Action:**``, a code fence. Everything takes linear time.
"""

import json
import re
from functools import lru_cache
from typing import NamedTuple

from llm_gym.reading.formats import drop_thinking

# --- reasoning and turns -------------------------------------------------------------------------

_THINKING = "(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning|scratchpad|reflection)[>▷]"
# In square brackets only the exact token counts: ``scores[thought]`` is code.
_OPENS = re.compile(
    rf"(?i)[<◁]{_THINKING}|(?-i:\[THINK\])|<\|(?:begin_of_thought|START_THINKING|channel)\|>"
)
END_OF_THOUGHT = "assistantfinal"
"""The only end of reasoning that consists of letters: what is left of tokens that were dropped."""
_CLOSES = re.compile(
    rf"(?i)[<◁]/{_THINKING}|(?-i:\[/THINK\])|<\|(?:end_of_thought|END_THINKING)\|>"
    rf"|<\|channel\|>final[^<]*<\|message\|>|(?-i:{END_OF_THOUGHT})"
)
# Reasoning that is never closed hides the rest, up to an action tag.
_THOUGHT = re.compile(r"(?s)<think>.*?(?:</think>|(?=<(?:action|answer|move|guess)>)|\Z)")
# These end the turn: a model that continues after them writes the other side's turn too.
_OVER = re.compile(
    r"(?i)(?<=\S)\s*<(?:\|(?:im_end|eot_id|eom_id|end|return|end_?of_?(?:text|turn_token))\||eos"
    r"|end_of_turn|tool_response)>"
)
_OTHER_SIDE = re.compile(
    r"(?<=\S)\s*\n[ \t*]{0,4}(?:User|USER|Human|HUMAN|Observation)[ \t\d*]{0,4}:"
)
_CONTROL = re.compile(
    r"(?i)<\|[\w-]{1,40}\|>|<(?:bos|pad|start_of_turn)>|\[/?INST\]|\A\s*<s>|</s>\s*\Z"
)
# A JSON string; marks inside it do not count. Two strings share no quote, so one pass is enough.
_STRING = re.compile(r"[:,{\[]\s{0,3}\"(?:[^\"\\\n]|\\.)*+\"")
_HIDDEN = "\ue000\ue001\ue002"
_HIDE, _SHOW = str.maketrans("<[◁", _HIDDEN), str.maketrans(_HIDDEN, "<[◁")


def is_thought_mark(token: str) -> bool:
    """Whether a model begins or ends its reasoning with ``token``.

    >>> is_thought_mark("[THINK]"), is_thought_mark("<|END_THINKING|>"), is_thought_mark("<s>")
    (True, True, False)
    """
    return bool(_OPENS.fullmatch(token) or _CLOSES.fullmatch(token))


def own_turn(text: str) -> str:
    r"""Return ``text`` without reasoning, up to the end of its turn; otherwise unchanged.

    >>> own_turn("<thinking>a?</thinking>call b<|im_end|>\n<|im_start|>user\nok")
    'call b'
    >>> own_turn('{"query": "the <thought> tag"}')
    '{"query": "the <thought> tag"}'
    >>> own_turn("<|channel|>analysis<|message|>up?<|end|><|channel|>final<|message|>down")
    'down'
    """
    if not ("<" in text or "[" in text or "◁" in text or END_OF_THOUGHT in text):
        return text  # most replies
    hides = '"' in text and not any(sign in text for sign in _HIDDEN)
    if hides:
        text = _STRING.sub(lambda found: found[0][0] + found[0][1:].translate(_HIDE), text)
    text = _OPENS.sub("<think>", _CLOSES.sub("</think>", drop_thinking(text)))
    text = _THOUGHT.sub("", text).rpartition("</think>")[2]  # it may be opened in the prompt
    text = _OVER.split(text, 1)[0]
    return text.translate(_SHOW) if hides else text


def visible(text: str) -> str:
    r"""Return ``own_turn`` without control tokens and without text for the other side.

    >>> visible("[THINK]up?[/THINK]go north<|im_end|>"), visible("<s>up</s>")
    ('go north', 'up')
    >>> visible("Action: up\nObservation: You win."), visible("up\n\nUser: And now?")
    ('Action: up', 'up')
    """
    text = own_turn(text)
    if "<" in text or "[" in text:
        text = _CONTROL.sub("", text)
    return _OTHER_SIDE.split(text, 1)[0] if "\n" in text else text


# --- what a move is wrapped in -----------------------------------------------------------------

_PAIRS = dict(zip("\"'`“‘«[(<${|「『（【《", "\"'`”’»])>$}|」』）】》", strict=True))
BULLET = re.compile(r"\s{0,8}(?:[-*•+>]|#{1,6}|\d{1,2}[.)]|\(\d{1,2}\))\s+(?=\S)")
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
_DIGIT = re.compile("[^\\D0-9]")
_WIDE = str.maketrans({"：": ": ", "，": ", ", "。": ". ", "！": "! ", "？": "? "})
_SEAM = re.compile("(?<=[\u3040-\ud7af])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[\u3040-\ud7af])")
_LATEX = re.compile(r"\\(?:text|math|[fm]box|operatorname)\w{0,4}\s?\{([^{}]*)\}")
_SIGN = re.compile(
    r" *(?:\\(times|cdot|div|to|rightarrow|left|right|q?quad)(?![a-z])|\\[ ,;:!()\[\]]|~) *"
)
_SIGNS = {"times": "* ", "cdot": "* ", "div": "/ ", "to": " -> ", "rightarrow": " -> "}
_ENDS = ".!,;: \t*_$~|\\\0"
_FRONTS = "*_ \t$~#\0"
_SEEN = r"[\w!-~−√€£¥？]"  # neither a picture nor invisible
_SHOWN = re.compile(f"(?s){_SEEN}(?:.*{_SEEN})?")
_ROUNDS = 8  # layers of markup that are removed; this bounds the cost of deep nesting


@lru_cache(maxsize=1024)
def undress(text: str) -> str:
    r"""Return ``text`` without the markup around it.

    >>> [undress(text) for text in ('**"Right."**', "`go north`!", r"\text{7}", "[7]", "up?")]
    ['Right', 'go north', '7', '7', 'up?']
    >>> undress("(1 + 2) * (3 + 4)"), undress(r"\(C \to B\)")
    ('(1 + 2) * (3 + 4)', 'C -> B')
    """
    bare = text.strip().rstrip(_ENDS)
    if bare[:1].isalpha() and bare[-1:].isalnum() and bare.isascii() and "\\" not in bare:
        return bare  # most replies
    if "\\" in text:
        text = _SIGN.sub(lambda sign: _SIGNS.get(sign[1], " "), _LATEX.sub(r"\1", text))
        text = re.sub(" +", " ", text)
    for _ in range(_ROUNDS):
        before = text
        text = text.strip().rstrip(_ENDS).lstrip(_FRONTS)
        if found := BULLET.match(text):
            text = text[found.end() :]
        if not text.isascii():
            text = without_pictures(text)
        inside, closing = text[1:-1], _PAIRS.get(text[:1])
        if inside and text[-1] == closing and not {closing, text[0]} & {*inside}:
            text = inside
        if text == before:
            break
    return text


def without_pictures(text: str) -> str:
    """Return ``text`` without emoji and invisible characters at its ends, if anything is left.

    >>> without_pictures("\U0001f600 up \u200b"), without_pictures("\u2b05\ufe0f")
    ('up', '\u2b05\ufe0f')
    """
    found = _SHOWN.search(text)
    return found[0] if found else text


def plain_text(text: str) -> str:
    """Return ``text`` without struck-out parts, with ASCII digits and punctuation.

    >>> plain_text("４２"), plain_text("~~up~~ down"), plain_text("答：up。")
    ('42', ' down', '答: up. ')
    """
    if "~~" in text:
        text = _STRUCK.sub("", text)
    if text.isascii():
        return text
    text = _SEAM.sub(" ", text.translate(_WIDE))
    return _DIGIT.sub(lambda digit: str(int(digit[0])), text)


# --- markers -----------------------------------------------------------------------------------

_NAMES = "action|answer|move|guess|choice|command|final[_ ]answer"
_NAME = re.compile(rf"(?i){_NAMES}|response|output|direction")
# Groups: the name, the content, and the closing tag (absent if the tag may stay open).
_TAG = re.compile(
    rf"(?is)<\s?({_NAMES})\s?>\s*((?:(?!</?\s?(?:{_NAMES})\s?>).)*+)(</[^>\n]{{1,20}}>)?"
)
_BOX = re.compile(r"\\boxed(\{)((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)(\})?")
_LABEL = re.compile(
    r"(?im)^[ \t>*_#`-]{0,12}(?:(?:my|the|your|our|final|next|best|chosen|correct|so|therefore|thus"
    r"|and)[ ,]{1,2}){0,4}(action|answer|move|guess|choice|command|decision|conclusion|selection"
    r"|pick|final|total|direction|position)s?(?: is)?[ \t*_`#\d]{0,8}[:=][ \t*_]{0,6}(?:\|?\n"
    r"\s{0,20})?(?:```\w{0,20}\n)?(\S[^\n]*)()"
)
_FENCE = re.compile(r"```[ \t]?([\w+-]{0,20})[ \t]?(?:\n|(?=\S))([^`]{1,4000}?)\n?[ \t]*(```|\Z)")
_FIELDS = re.compile(
    r"(?:\w+\()?(?:\w++\s?[:=]\s?[\"']?\w++[\"']?(?:[,;]\s?|[ \t]*\n\s*+|\)?\s*+\Z)){2,4}"
)
_SIMPLE = (str, int, float, list)  # types of values that can be part of a move
_KINDS = {"tag": _TAG, "boxed": _BOX, "label": _LABEL, "fence": _FENCE}
MARKS = re.compile(r"[<\\`:={]")
"""Every marker contains one of these characters."""
STRONG = frozenset({"tag", "boxed", "json", "label"})
"""Markers that always mean a move, so that the rest of the reply is ignored."""


class Marker(NamedTuple):
    """One explicit mark of a move: a tag, boxed, json, label or fence."""

    kind: str
    label: str
    """The name in the text: action, answer, move; for a fence, its language."""
    text: str
    start: int
    end: int
    more: str = ""
    """All values of a JSON object as one text, for moves that have several parts."""


@lru_cache(maxsize=1024)
def find_markers(text: str) -> tuple[Marker, ...]:
    r"""Return the markers in ``text``, at most two of each kind: strong ones first, last one first.

    >>> [(m.kind, m.text) for m in find_markers("**Action:** go up\n```\nx\n``` <Answer>7")]
    [('tag', '7'), ('label', 'go up'), ('fence', 'x')]
    >>> [(m.label, m.text) for m in find_markers('{"why": "safe",\n "move": "up"}')]
    [('move', 'up')]
    >>> [m.text for m in find_markers("{'from': 'A', 'to': 2}")]
    ['from A, to 2']
    """
    if MARKS.search(text) is None:
        return ()
    last = text.rfind("{")
    found = [_object(text, at) for at in {last, text.rfind("{", 0, max(last, 0))} - {-1}]
    words = re.findall(r"\w+", text) if _FIELDS.fullmatch(text) else []
    if words and len({*words[-2::-2]}) == len(words) // 2:  # each name once
        found.append(Marker("json", "object", " ".join(words), 0, len(text)))
    for kind, pattern in _KINDS.items():
        found += [_marker(kind, one) for one in [*pattern.finditer(text)][-2:]]
    found.sort(key=lambda one: (one.kind not in STRONG, -one.start))
    return tuple(one for one in found if one.text)


def _marker(kind: str, found: re.Match[str]) -> Marker:
    move, end = found[2], found.end()
    if found[3] is None:  # not closed: the move is on this line
        move = move.partition("\n")[0].rstrip("}$ ")
        end = found.start(2) + len(move)
    label = "answer" if kind == "boxed" else found[1].casefold() or kind
    return Marker(kind, label, move.strip(), found.start(), end)


def _object(text: str, start: int) -> Marker:
    """Return the marker of the JSON object at ``start``; single quotes are allowed."""
    end = text.find("}", start) + 1
    if '"' not in text[start:end]:
        text = text[:start] + text[start:end].replace("'", '"')
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return Marker("json", "", "", start, start)
    fields = {key: str(one)[:4000] for key, one in value.items() if isinstance(one, _SIMPLE)}
    name = next((key for key in fields if len(fields) == 1 or _NAME.search(key)), "object")
    move = fields.pop(name, "") or ", ".join(f"{key} {one}" for key, one in fields.items())
    return Marker("json", name.casefold(), move, start, end, " ".join([move, *fields.values()]))

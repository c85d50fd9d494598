r"""What a reply says: without its reasoning, and without what belongs to a chat template.

Every family of models marks its reasoning in its own way, and control tokens reach us as text
wherever a server decodes them. Neither is part of the move.
"""

from __future__ import annotations

import re

from llm_gym.core.formats import drop_thinking

_NAMES = r"(?:seed:)?(thinking|think|thoughts?|reasoning|scratchpad|reflection)"
# An opening that is never closed hides the rest, so a text of openings is gone over once.
# In square brackets only as it is a token: ``scores[thought]`` is code.
_THOUGHT = re.compile(
    rf"(?:[<\u25c1]{_NAMES}[>\u25b7].*?(?:[<\u25c1]/(?:seed:)?\1[>\u25b7]"
    r"|(?=<(?:answer|action|move|guess)>)|\Z))"
    r"|(?-i:\[THINK\].*?(?:\[/THINK\]|(?=<(?:answer|action|move|guess)>)|\Z))",
    re.DOTALL | re.IGNORECASE,
)
_BLOCK = re.compile(
    r"<\|(?:begin_of_thought|START_THINKING)\|>.*?(?:<\|(?:end_of_thought|END_THINKING)\|>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_CLOSED = re.compile(r"</thinking>|\u25c1/think\u25b7|\[/think\]", re.IGNORECASE)
_CONTROL = re.compile(
    r"<\|[\w-]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn|start_of_turn|end_of_text)>"
    r"|\[/?INST\]",
    re.IGNORECASE,
)
# After these the turn is over: a model that writes on plays the other side as well.
_OVER = re.compile(
    r"(?<=\S)\s*(?:<\|(?:im_end|eot_id|eom_id|end|return|endoftext|end_of_text|END_OF_TURN_TOKEN)\|>"
    r"|</s>|<(?:eos|end_of_turn)>)",
    re.IGNORECASE,
)
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end", "<tool_response>")
_ENDED = re.compile(
    r"(?<=\S)\s*<(?:\|(?:im_end|eot_id|eom_id|endoftext|end_of_text)\||tool_response)>"
)
_OTHER_SIDE = re.compile(r"(?<=\S)\s*\n[ \t*]{0,4}(?:User|USER|Human|HUMAN)[ \t*]{0,4}:")
_ACTED = re.compile(r"^[ \t*]{0,4}action[ \t\d*]{0,4}:", re.IGNORECASE | re.MULTILINE)
_OBSERVED = re.compile(r"\n[ \t*]{0,4}observation[ \t\d*]{0,4}:", re.IGNORECASE)
_STRANGE = re.compile(r"[<\[\u25c1](?!/?(?:action|answer|move|guess)>)")
"""A bracket that opens no tag of our own: all of these begin with one."""
_WORDS = ("think", "thought", "reasoning", "scratchpad", "reflection", "channel", "assistantfinal")
_HARMONY = "<|channel|>"
# A value of JSON, in which marks are only mentioned; two of them share no quote, so one pass does.
_STRING = re.compile(r"[:,{\[]\s{0,3}\"(?:[^\"\\\n]|\\.)*+\"")
_MENTION = str.maketrans("<[\u25c1", "\ue000\ue001\ue002")
_AS_WRITTEN = str.maketrans("\ue000\ue001\ue002", "<[\u25c1")
_LONGEST = 44  # characters of a control token
_ROUNDS = 8  # control tokens taken off either end


def spoken(text: str) -> str:
    r"""Return ``text`` without reasoning and without the control tokens around it.

    >>> spoken("<thinking>south?</thinking>go north<|im_end|>"), spoken("[THINK]up?[/THINK]down")
    ('go north', 'down')
    >>> spoken("<|channel|>analysis<|message|>up?<|end|><|channel|>final<|message|>down")
    'down'
    >>> spoken("a[0] < 3")
    'a[0] < 3'
    """
    if "<" in text or "[" in text or "\u25c1" in text or "assistantf" in text:
        text = _without_marks(text)
    return _own_side(text) if "\n" in text and ":" in text else text


def _without_marks(text: str) -> str:
    if _STRANGE.search(text) is None and "assistantf" not in text:
        return text
    text = _without_thoughts(text)
    is_struck = "<s>" in text  # what is struck through ends like a turn
    text = _without_control(text)
    over = None if is_struck else _OVER.search(text)
    return text[: over.start()] if over else text


def own_turn(text: str) -> str:
    r"""Return ``text`` without reasoning, and up to where its turn ends; for the rest as it is.

    >>> own_turn("<thinking>a?</thinking>call b<|im_end|>\n<|im_start|>user\nok")
    'call b'
    >>> own_turn('{"query": "the <thought> tag"}')
    '{"query": "the <thought> tag"}'
    """
    if "<" not in text and "[" not in text and "\u25c1" not in text:
        return text
    small = text.lower()
    if not any(sign in small for sign in (*_WORDS, *_ENDS)):  # as most calls are written
        return text
    hides = not any(sign in text for sign in "\ue000\ue001\ue002")
    if hides:
        text = _STRING.sub(lambda found: found[0][0] + found[0][1:].translate(_MENTION), text)
    text = _without_thoughts(text)
    over = _ENDED.search(text)
    text = text[: over.start()] if over else text
    return text.translate(_AS_WRITTEN) if hides else text


def _without_thoughts(text: str) -> str:
    small = text.lower()
    if any(word in small for word in _WORDS):  # a pattern would look at every bracket
        text = drop_thinking(_final_channel(text))
        text = _BLOCK.sub("", _THOUGHT.sub("", text))
        if closed := list(_CLOSED.finditer(text)):  # opened in the prompt
            text = text[closed[-1].end() :]
    return text


def _own_side(text: str) -> str:
    r"""Return ``text`` up to where it goes on as the user, or imagines what it will be told.

    >>> _own_side("Action: up\nObservation: You win."), _own_side("up\n\nUser: And now?")
    ('Action: up', 'up')
    >>> _own_side("Observation: a wall.\nAction: up")
    'Observation: a wall.\nAction: up'
    """
    if other := _OTHER_SIDE.search(text):
        text = text[: other.start()]
    acted = _ACTED.search(text)
    seen = _OBSERVED.search(text, acted.end()) if acted else None
    return text[: seen.start()] if seen else text


def _final_channel(text: str) -> str:
    """Return what the last ``final`` channel says; nothing where there are only others."""
    if _HARMONY in text:
        _, channel, said = text.rpartition(f"{_HARMONY}final")
        return said.partition("<|message|>")[2] if channel else text.partition(_HARMONY)[0]
    if text.lstrip().startswith("analysis") and "assistantfinal" in text:
        return text.rpartition("assistantfinal")[2]
    return text


def _without_control(text: str) -> str:
    for _ in range(_ROUNDS):
        said = text.strip()
        first = _CONTROL.match(said)
        if first and first.end() < len(said):
            text = said[first.end() :]
            continue
        at = max(said.rfind("<", -_LONGEST), said.rfind("[", -_LONGEST))
        if at < 0 or _CONTROL.fullmatch(said, at) is None:
            break
        text = said[:at]
    return text

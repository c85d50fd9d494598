"""Splits a chat template into its fixed texts.

The template is rendered with marks for contents and split at the marks; it is never parsed.
White space around the marks shows whether the template trims contents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError

_PAD = "\t\n\t"  # no template writes this itself, so if it is missing, it was trimmed
_THINKS = re.compile(r"think|thought|reasoning|<\|channel", re.IGNORECASE)
_OPENED = re.compile(r"<([\w:]*think\w*|reasoning)>\s*$")
_CLOSED = re.compile(r"</([\w:]*think\w*|reasoning)>\s*$")
_TAGS = re.compile(r"</([\w:]*think\w*|reasoning)>")
_REFUSALS = (TemplateError, TypeError, ValueError)  # of ``run_bounded``: a ValueError
_TRIMS: dict[tuple[bool, bool], Callable[[str], str]] = {
    (False, False): str,
    (True, False): str.lstrip,
    (False, True): str.rstrip,
    (True, True): str.strip,
}


def _mark(number: int) -> str:
    """Return the mark of a content; a template that escapes contents changes it and is refused."""
    return f'Zq{number}"<&\\\n é{number}qZ'


_SYSTEM, _USER, _REPLY, _USER_2, _REPLY_2, _USER_3 = map(_mark, range(6))


class Render(Protocol):
    """Renders messages with a template."""

    def __call__(self, messages: Sequence[Mapping[str, str]], open_reply: bool = True) -> str: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Fixed parts of text with a slot for a content between any two of them."""

    fixed: tuple[str, ...] = ("",)
    trims: tuple[Callable[[str], str], ...] = ()
    """How the template trims each content; ``str`` for no trimming."""
    anchor: str = ""
    """A token written before the text and removed again: some tokenizers add a space at the start
    of a text."""

    def __len__(self) -> int:
        return len(self.trims)

    def split(self, tokens: Collection[str]) -> tuple[Piece, Piece, Piece]:
        """Split before ``tokens`` into head, body and tail; the body holds the last slot.

        The body is as short as the tokens allow.
        """
        *head, before, after = self.fixed
        start, end = find_token(before, tokens, last=True), find_token(after, tokens)
        stop = end.start() if end else len(after)
        tail = Piece((after[stop:],))
        if start is None:
            return Piece(), Piece((*self.fixed[:-1], after[:stop]), self.trims, self.anchor), tail
        at = start.start()
        return (
            Piece((*head, before[:at]), self.trims[:-1], self.anchor),
            Piece((before[at:], after[:stop]), self.trims[-1:]),
            tail,
        )


@dataclass(frozen=True, slots=True)
class Template:
    """The pieces of a conversation."""

    opening: Piece
    """One slot: the first user turn, up to the reply."""
    prompted: Piece | None
    """Two slots: the system prompt and the first user turn. None: there is no system role."""
    after_reply: Piece
    """One slot: from the end of a reply to the next one, with the user turn in between."""
    after_last: str
    """Text after the last reply of a conversation; may be empty."""
    rewrites: bool
    """Whether a later prompt changes earlier turns."""
    final: str
    """Text before a reply in the history that the prompt does not write: the name of a channel, or
    an empty thought."""
    opened: str
    """The name of the tag with which the prompt opens a thought; empty if it opens none."""
    thinks: bool
    """Whether the model may think before it replies."""

    @property
    def channel(self) -> str:
        """The name of the channel after which the answer begins; empty if there is none."""
        return "" if _CLOSED.search(self.final) else self.final


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders messages with a tokenizer's template, all with the same date and time.

    A template is a program that comes with the model, so it runs in a child process with limits.
    """

    tokenizer: PreTrainedTokenizerBase
    options: Mapping[str, Any]
    time: datetime = field(default_factory=datetime.now)
    _written: dict[str, tuple[bool, str]] = field(default_factory=dict)
    """By messages: whether the template wrote them, and the text or the error."""

    def __call__(self, messages: Sequence[Mapping[str, str]], open_reply: bool = True) -> str:
        key = json.dumps([messages, open_reply])
        if key not in self._written:
            self.write_ahead(lambda write: write(messages, open_reply))
        is_text, text = self._written[key]
        if not is_text:
            raise ValueError(text)
        return text

    def write_ahead(self, work: Callable[[Render], object]) -> None:
        """Render all messages that ``work`` needs in one child, because starting one is slow."""
        from llm_gym.tools.sandbox.bounded import EndlessError, run_bounded

        def write(messages: Sequence[Mapping[str, str]], open_reply: bool = True) -> str:
            try:
                found = True, self._write(messages, open_reply)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - a program of others may raise anything
                found = False, f"{type(error).__name__}: {error}"
            written[json.dumps([messages, open_reply])] = found
            if not found[0]:
                raise ValueError(found[1])
            return found[1]

        def write_all() -> str:
            with suppress(ValueError):  # it is raised again where the texts are asked for
                work(write)
            return json.dumps(written)

        written: dict[str, tuple[bool, str]] = {}
        try:
            self._written.update(json.loads(run_bounded(write_all)))
        except EndlessError as error:
            raise ConfigError(f"the chat template does not come to an end: {error}") from error

    def _write(self, messages: Sequence[Mapping[str, str]], open_reply: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=open_reply,
            **{"strftime_now": self.time.strftime, **self.options},
        )
        assert isinstance(text, str)
        return text

    def conversation(self, replies: int, *, system: bool) -> tuple[Piece, list[int]]:
        """Return the whole prompt after ``replies`` replies, and the message of each slot."""
        marks = [_mark(at) for at in range(2 * replies + 1 + system)]
        roles = ["system"] * system + ["user", "assistant"] * replies + ["user"]
        messages = [_message(role, mark, pad=True) for role, mark in zip(roles, marks, strict=True)]
        text = self(messages)
        order = sorted(range(len(marks)), key=lambda at: text.find(marks[at]))
        found = _cut(text, *(marks[at] for at in order))
        if found is None:
            raise ConfigError(
                "the chat template must write every message as it is, and once; set "
                "inference.context to 'verbatim' or take a tokenizer with another chat_template"
            )
        return found, order


def cut_template(render: Renderer) -> Template:
    """Return the pieces of a chat template; raise if it cannot be split."""
    names = (str(render.tokenizer.chat_template), *render.tokenizer.get_added_vocab())
    render.write_ahead(lambda write: _cut_template(write, names))
    return _cut_template(render, names)


def _cut_template(render: Render, names: Sequence[str]) -> Template:
    opening, after_reply = _user_turns(render)
    prompted = _with_system(render)
    prompt, end = render([_message("user", _USER)]), opening.fixed[-1]
    later = render(
        [_message("user", _USER), _message("assistant", _REPLY), _message("user", _USER_2)]
    )
    final = later.partition(prompt)[2].partition(_REPLY)[0] if later.startswith(prompt) else ""
    opened = _OPENED.search(end)
    return Template(
        opening,
        prompted,
        after_reply,
        _after_last(render),
        rewrites=_rewrites(
            render, {"think", *_TAGS.findall(names[0])}, has_system=prompted is not None
        ),
        final=final if final.strip() else "",
        opened=opened[1] if opened else "",
        thinks=not _CLOSED.search(end) and any(map(_THINKS.search, names)),
    )


def _rewrites(render: Render, tags: Collection[str], *, has_system: bool) -> bool:
    """Whether a prompt does not begin with the last prompt and its reply, a thought in ``tags``.

    Templates drop only thoughts in the tag that they know, so several tags are tried.
    """
    for thought in ("", *(f"<{tag}>\nZqT\n</{tag}>\n\n" for tag in sorted(tags))):
        messages = [_message("system", _SYSTEM)] if has_system else []
        last = answer = ""
        for user, reply in ((_USER, _REPLY), (_USER_2, _REPLY_2), (_USER_3, "")):
            messages.append(_message("user", user))
            try:
                prompt = render(messages)
            except _REFUSALS:  # it refuses a thought in the history
                break
            # White space before a reply, if any, is written by the model.
            if not prompt.startswith(last) or not prompt[len(last) :].lstrip().startswith(answer):
                return True
            last, answer = prompt, thought + reply
            messages.append(_message("assistant", answer))
    return False


def _user_turns(render: Render) -> tuple[Piece, Piece]:
    """Return the first user turn and the later ones, which must be equal."""
    messages = [
        _message("user", _USER),
        _message("assistant", _REPLY),
        _message("user", _USER_2, pad=True),
    ]
    longer = [*messages[:2], _message("user", _USER_2), _message("assistant", _REPLY_2)]
    longer.append(_message("user", _USER_3, pad=True))
    try:
        opening = _cut(render([_message("user", _USER, pad=True)]), _USER)
        second = _cut(render(messages), _REPLY, _USER_2)
        third = _cut(render(longer), _REPLY_2, _USER_3)
    except _REFUSALS as error:
        raise ConfigError(f"the chat template cannot write user and assistant: {error}") from error
    if opening is None or second is None or third is None:
        raise ConfigError(
            "the chat template must write every user and assistant message as it is, once and in "
            "order; pass a tokenizer with another chat_template"
        )
    after_reply = Piece(second.fixed[1:], second.trims[1:])
    if after_reply != Piece(third.fixed[1:], third.trims[1:]):
        raise ConfigError(
            "the chat template writes the third user turn unlike the second, so that a "
            "conversation cannot grow; pass a tokenizer with another chat_template"
        )
    return opening, after_reply


def _with_system(render: Render) -> Piece | None:
    messages = [_message("system", _SYSTEM, pad=True), _message("user", _USER, pad=True)]
    try:
        return _cut(render(messages), _SYSTEM, _USER)
    except _REFUSALS:  # it refuses a system role
        return None


def _after_last(render: Render) -> str:
    messages = [_message("user", _USER), _message("assistant", _REPLY)]
    try:
        return render(messages, open_reply=False).partition(_REPLY)[2]
    except _REFUSALS:  # it requires a user turn at the end
        return ""


def find_token(text: str, tokens: Collection[str], *, last: bool = False) -> re.Match[str] | None:
    """Return the first or last match of ``tokens`` in ``text``."""
    pattern = "|".join(map(re.escape, sorted(tokens, key=len, reverse=True)))
    found = list(re.finditer(pattern, text)) if pattern else []
    return found[-1 if last else 0] if found else None


def _message(role: str, text: str, *, pad: bool = False) -> dict[str, str]:
    return {"role": role, "content": f"{_PAD}{text}{_PAD}" if pad else text}


def _cut(text: str, *marks: str) -> Piece | None:
    """Return ``text`` split at ``marks``; None unless each occurs once and in this order."""
    places = [text.find(mark) for mark in marks]
    if any(text.count(mark) != 1 for mark in marks) or places != sorted(places):
        return None
    parts = re.split("|".join(map(re.escape, marks)), text)
    trims = []
    for at, (before, after) in enumerate(pairwise(list(parts))):
        kept = before.endswith(_PAD), after.startswith(_PAD)
        trims.append(_TRIMS[not kept[0], not kept[1]])
        if kept[0]:
            parts[at] = parts[at].removesuffix(_PAD)
        if kept[1]:
            parts[at + 1] = parts[at + 1].removeprefix(_PAD)
    return Piece(tuple(parts), tuple(trims))

"""Conversations as token ids, turn by turn: token in, token out.

``ChatFormat`` knows how one tokenizer writes a conversation. ``opening`` gives the ids of the
first prompt; ``following`` gives the ids to append to a sampled reply, so that the next prompt is
``[*prompt, *reply_ids, *following(reply_ids, observation)]``.

If a template ``rewrites`` history, for example by dropping earlier reasoning, prompts cannot grow
in this way: ``prompt`` then builds a new prompt for each turn. Training uses the sampled tokens
after their own prompt; earlier replies in that prompt are not trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError
from llm_gym.reading.markup import own_turn
from llm_gym_agents.text.codec import Codec, Writer
from llm_gym_agents.text.template import Piece, Renderer, cut_template, find_token

Context = Literal["history", "verbatim", "observation"]
"""What a model reads: the episode as the template writes it, the same with every reply as it was
sampled, or only the current observation."""
_PROMPT = "\n>"  # no space after it: in most vocabularies a word token begins with a space
_PLAIN_MARK = "{#- llm-gym: a plain transcript -#}"


@dataclass(kw_only=True, eq=False, repr=False)
class ChatFormat:
    """How one tokenizer writes an episode; build it with ``from_tokenizer``.

    With history context, a prompt begins with ``opening`` and grows by replies and ``following``.
    With observation context, every turn is an ``opening``.

    Observations and system prompts stay text: a control token typed there is tokenised as plain
    characters. (Marks in plain characters, such as ``[INST]`` or the ``>`` of a plain transcript,
    cannot be told apart.)
    """

    kind: Literal["chat", "plain"]
    stop_ids: tuple[int, ...]
    """Ids that end a reply, for ``Sampling.stop_ids``. The reply includes its last id."""
    rewrites: bool = False
    """Whether the template changes earlier turns in later prompts."""
    thinks: bool = False
    """Whether the model may think before it replies."""
    _codec: Codec
    _first: list[int]
    _opening: tuple[Writer, ...]
    """Parts that are tokenised apart, each again only if its contents change."""
    _prompted: tuple[Writer, ...] | None
    _next: tuple[Writer, ...]
    _close: list[int]
    """Appended to a reply that does not end with an id of ``_closed_by``."""
    _closed_by: frozenset[int]
    _cut_at: frozenset[int]
    """The text of a reply ends before the first of these."""
    _render: Renderer | None = None
    _final: list[int] = field(default_factory=list)
    _channel: list[int] = field(default_factory=list)
    _opened: str = ""
    _writers: dict[tuple[int, bool], tuple[Writer, list[int]]] = field(default_factory=dict)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        *,
        plain: bool = False,
        template_options: Mapping[str, Any] | None = None,
    ) -> ChatFormat:
        """Return the format of ``tokenizer``: its chat template, or a plain transcript.

        A plain transcript is for models without chat training: the observation, a line that
        begins with ``>``, and the reply to the end of that line. If the tokenizer has no token for
        a line break, its end-of-text token ends the reply.

        Args:
            tokenizer: Any transformers tokenizer; it is copied, not changed.
            plain: Write a plain transcript even if there is a chat template.
            template_options: Variables of the chat template, as ``{"enable_thinking": False}``.
                Other inputs of the template, such as the date, are fixed now.
        """
        template = tokenizer.chat_template
        if plain or template is None or str(template).startswith(_PLAIN_MARK):
            if template_options:
                raise ConfigError(
                    f"template_options need a chat template, got {dict(template_options)} for a "
                    "plain transcript"
                )
            return cls._plain(tokenizer)
        return cls._chat(tokenizer, template_options or {})

    def opening(self, system_prompt: str, observation: str) -> list[int]:
        """Return the ids of a conversation's first prompt, ready for the first reply.

        An empty ``system_prompt`` keeps the template's default. Without a system role in the
        template, it goes before the first user message.
        """
        if not system_prompt:
            return [*self._first, *_write(self._opening, observation)]
        if self._prompted is None:
            return [*self._first, *_write(self._opening, f"{system_prompt}\n\n{observation}")]
        return [*self._first, *_write(self._prompted, system_prompt, observation)]

    def following(self, reply_ids: Sequence[int], observation: str) -> list[int]:
        """Return the ids to append after ``reply_ids``, ready for the next reply.

        The ids close the turn of the reply, unless the reply did so, and open the next turn.
        """
        return [*self._missing_close(reply_ids), *_write(self._next, observation)]

    def prompt(
        self, system_prompt: str, history: Sequence[tuple[str, str]], text: str
    ) -> list[int]:
        """Return the ids of a whole prompt, as the template writes it.

        Args:
            system_prompt: May be empty.
            history: Earlier observations, and the answer to each (``answer_of``).
            text: The last observation.
        """
        if self._render is None:
            raise ConfigError("a plain transcript has no chat template; use opening and following")
        contents = [*(each for turn in history for each in turn), text]
        has_role = bool(system_prompt) and self._prompted is not None
        if has_role:
            contents.insert(0, system_prompt)
        elif system_prompt:
            contents[0] = f"{system_prompt}\n\n{contents[0]}"
        key = (len(history), has_role)
        if key not in self._writers:
            piece, order = self._render.conversation(len(history), system=has_role)
            self._writers[key] = Writer(self._codec, piece), order
        writer, order = self._writers[key]
        return [*self._first, *writer.write(*(contents[at] for at in order))]

    def reply(self, text: str) -> list[int]:
        """Return the ids that a model would sample to say ``text``, for imitation.

        If the prompt opens a thought, the ids close it first.
        """
        if self._opened:
            text = f"\n</{self._opened}>\n\n{text}"
        written = f" {text}" if self.kind == "plain" and self._close != list(self._cut_at) else text
        return [*self._final, *self._codec.encode(written), *(self._close or self.stop_ids[:1])]

    def text_of(self, reply_ids: Sequence[int]) -> str:
        """Return the text of a reply: up to its end token, without special tokens, stripped.

        Text before the final channel, and a thought that the prompt opened, are put in
        ``<think>`` tags. Ids that are not valid text give U+FFFD.
        """
        cut_at = self._cut_at
        end = next((at for at, token in enumerate(reply_ids) if token in cut_at), len(reply_ids))
        ids, size = list(reply_ids[:end]), len(self._channel)
        if size:
            places = range(len(ids) - size, -1, -1)
            at = next((at for at in places if ids[at : at + size] == self._channel), None)
            thought = self._codec.decode(ids[:at]).strip()
            text = "" if at is None else self._codec.decode(ids[at + size :])
            closed = "" if at is None else "</think>\n"
            return f"<think>{thought}{closed}{text}".strip() if thought else text.strip()
        text = self._codec.decode(ids)
        return (f"<{self._opened}>{text}" if self._opened else text).strip()

    def answer_of(self, reply_ids: Sequence[int]) -> str:
        """Return the text of a reply without its reasoning, finished or not."""
        return own_turn(self.text_of(reply_ids)).strip()

    def _missing_close(self, reply_ids: Sequence[int]) -> Sequence[int]:
        if reply_ids and reply_ids[-1] in self._closed_by:
            return ()
        close = self._close
        for done in range(len(close) - 1, 0, -1):
            if list(reply_ids[-done:]) == close[:done]:
                return close[done:]
        return close

    @classmethod
    def _plain(cls, tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
        codec = Codec(tokenizer, ())
        eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        newline = codec.encode("\n")
        if "\n" not in codec.decode(newline):  # a tokenizer of words: lines are only separators
            newline = []
        if not (newline or eos):
            raise ConfigError(
                "a plain transcript needs an end of the reply, and this tokenizer has neither a "
                "token for a line break nor an eos_token; set tokenizer.eos_token"
            )
        texts = [codec.decode([at]) for at in range(len(tokenizer))] if newline else []
        turn = Writer(codec, Piece(("", _PROMPT), (str,)))
        rules = Writer(codec, Piece(("", "\n\n"), (str,)))
        later = Writer(codec, Piece(("", _PROMPT), (str,), codec.anchor))
        stops = [*eos, *(at for at, text in enumerate(texts) if "\n" in text)]
        return cls(
            kind="plain",
            stop_ids=tuple(dict.fromkeys(stops)),
            _codec=codec,
            _first=_first_ids(tokenizer),
            _opening=(turn,),
            _prompted=(rules, later),
            _next=(later,),
            _close=newline or eos,
            _closed_by=frozenset(
                [at for at, text in enumerate(texts) if text.endswith("\n")] or eos
            ),
            _cut_at=frozenset(eos),
        )

    @classmethod
    def _chat(cls, tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any]) -> ChatFormat:
        render = Renderer(tokenizer, options)
        template = cut_template(render)
        pieces = [template.opening, template.prompted or Piece(), template.after_reply]
        if template.rewrites:
            pieces.append(render.conversation(1, system=template.prompted is not None)[0])
        fixed = [text for piece in pieces for text in piece.fixed]
        codec = Codec(tokenizer, [*fixed, template.after_last])
        writers: dict[Piece, Writer] = {}

        def split(piece: Piece) -> tuple[Writer, ...]:
            parts = piece.split(codec.cuts)
            return tuple(writers.setdefault(part, Writer(codec, part)) for part in parts)

        after, tail = template.after_reply.fixed
        end = find_token(after, codec.tokens)
        last_end = find_token(template.after_last, codec.tokens) or end
        eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        if end is None and not eos:
            raise ConfigError(
                "the chat template ends a reply with no token, and the tokenizer has no eos_token; "
                "set tokenizer.eos_token"
            )
        anchor = end[0] if end else codec.anchor
        rest = after[end.end() :] if end else after
        closed_by = [codec.tokens[found[0]] for found in (end, last_end) if found]
        stop_ids = tuple(dict.fromkeys([*closed_by[-1:], *eos]))
        opening = split(template.opening)
        first = _first_ids(tokenizer)
        return cls(
            kind="chat",
            stop_ids=stop_ids,
            rewrites=template.rewrites,
            thinks=template.thinks,
            _codec=codec,
            _first=[] if _write(opening, "x")[: len(first)] == first else first,
            _opening=opening,
            _prompted=split(template.prompted) if template.prompted else None,
            _next=split(Piece((rest, tail), template.after_reply.trims, anchor)),
            _close=codec.encode(after[: end.end()]) if end else [],
            _closed_by=frozenset(closed_by),
            _cut_at=frozenset(stop_ids),
            _render=render,
            _final=codec.encode(template.final),
            _channel=codec.encode(template.channel),
            _opened=template.opened,
        )


def _write(parts: tuple[Writer, ...], *contents: str) -> list[int]:
    given = iter(contents)
    return [at for part in parts for at in part.ids(*islice(given, len(part)))]


def plain_template(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a chat template that writes the plain transcript.

    A model without a template is saved with it, so that transformers can chat with the model.
    """
    chat = ChatFormat.from_tokenizer(tokenizer, plain=True)
    end = "eos_token" if chat._close == [tokenizer.eos_token_id] else "'\\n'"
    return (
        _PLAIN_MARK
        + "{{ bos_token }}" * bool(chat._first)
        + "{% for message in messages %}{% if message.role == 'assistant' %}"
        + "{{ '\\n> ' + message.content + "
        + end
        + " }}"
        + "{% elif message.role == 'system' %}{{ message.content + '\\n\\n' }}"
        + "{% else %}{{ message.content }}{% endif %}{% endfor %}"
        + "{% if add_generation_prompt %}{{ '\\n>' }}{% endif %}"
    )


def _first_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids that the tokenizer puts before every text: a BOS, or nothing."""
    bare, dressed = tokenizer.encode("x", add_special_tokens=False), tokenizer.encode("x")
    at = next((at for at in range(len(dressed)) if dressed[at : at + len(bare)] == bare), 0)
    return list(dressed[:at])


@dataclass(slots=True)
class TokenConversation:
    """One conversation as token ids. ``ids`` is never mutated: an engine may still hold it."""

    chat: ChatFormat
    context: Context = "history"
    ids: list[int] = field(default_factory=list)
    turns: int = 0
    """Replies so far."""
    reply_ids: list[int] = field(default_factory=list)
    """The last reply."""
    _system: str = ""
    _observation: str = ""
    _history: list[tuple[str, str]] = field(default_factory=list)

    @property
    def grows(self) -> bool:
        """Whether the next prompt begins with the last one and the reply to it."""
        return self.context == "verbatim" or (self.context == "history" and not self.chat.rewrites)

    def read(self, system_prompt: str, text: str) -> list[int]:
        """Begin with ``text`` if the context has no turn before it, else append it.

        The system prompt may be empty. Return the ids that the model reads: added ones, or all.
        """
        if self.turns and self.context != "observation":
            return self.add_observation(text)
        self.ids, self._history = self.chat.opening(system_prompt, text), []
        self._system, self._observation = system_prompt, text
        return self.ids

    def add_observation(self, text: str) -> list[int]:
        """Append an observation; return the ids that the model reads: added ones, or all."""
        if self.grows:
            read = self.chat.following(self.reply_ids, text)
            self.ids = self.ids + read
        else:
            self.ids = read = self.chat.prompt(self._system, self._history, text)
        self._observation = text
        return read

    def add_reply(self, reply_ids: list[int]) -> None:
        if self.context == "history" and self.chat.rewrites:
            self._history.append((self._observation, self.chat.answer_of(reply_ids)))
        self.ids = self.ids + reply_ids
        self.reply_ids = reply_ids
        self.turns += 1

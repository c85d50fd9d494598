"""Text to token ids for chat, safe against injected control tokens.

A ``Writer`` tokenises one piece of a conversation at once, as in the model's training, and checks
whether a content (a message text) produced a control token. If so, because the text contains
``<|im_end|>`` for example, it tokenises again with such words split, so that they stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from typing import Any, TypeAlias

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from llm_gym.reading.markup import is_thought_mark
from llm_gym_agents.text.template import Piece

Backend: TypeAlias = Tokenizer | PreTrainedTokenizerBase
CACHED_CONTENTS = 1024
"""Cache size of a ``Writer``: the episodes of a group have the same beginning."""


class Codec:
    """A copy of a tokenizer that no other code reconfigures.

    Args:
        tokenizer: The tokenizer to copy. A slow (Python) tokenizer is used without a copy.
        fixed: Every fixed text of the conversation. Added tokens in it are control tokens, like
            all special tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, fixed: Iterable[str]) -> None:
        self._backend: Backend = tokenizer
        if tokenizer.is_fast:
            self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
            self._backend.no_truncation()
            self._backend.no_padding()
            self._backend.encode_special_tokens = False
        # Some vocabularies add runs of spaces and line breaks; these are text.
        added = {at: t for at, t in tokenizer.added_tokens_decoder.items() if t.content.strip()}
        self.tokens: dict[str, int] = {token.content: at for at, token in added.items()}
        """Added tokens, special or not."""
        self.cuts = [
            token.content for token in added.values() if not (token.lstrip or token.single_word)
        ]
        """Tokens before which a text can be split without changing its ids."""
        text = "\0".join(fixed)
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        unknown = tokenizer.unk_token_id  # any unknown word gives it
        special = {at for at, token in added.items() if token.special} - {unknown}
        self._thought_marks = {  # without channels: the template gives their names
            at: added[at].content
            for at in special
            if is_thought_mark(added[at].content) and added[at].content != "<|channel|>"
        }
        self.control = frozenset(
            {at for token, at in self.tokens.items() if token in text}
            | special
            | {at for at in ends if at is not None}
        )
        """Ids that the text of a message must never produce."""
        self.unknown = tokenizer.unk_token if unknown not in self.control else None
        """The unknown token, if it is no control token."""
        words = [word for word, at in self.tokens.items() if at in {*self.control, unknown}]
        pattern = "|".join(map(re.escape, words))
        self._lookalike = re.compile(f"(?={pattern})" if pattern else r"(?!)")
        plain = [
            token.content
            for at, token in added.items()
            if at in self.control and not (token.lstrip or token.rstrip or token.single_word)
        ]
        self.anchor = next((word for word in plain if len(self.encode(word)) == 1), "")
        """A control token that strips no white space around it, if there is one."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, control tokens included, without BOS or EOS."""
        if not isinstance(self._backend, Tokenizer):
            ids: list[int] = self._backend.encode(whole(text), add_special_tokens=False)
            return ids
        try:
            return self._backend.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError):  # half a surrogate pair has no utf-8 bytes
            return self._backend.encode(whole(text), add_special_tokens=False).ids

    def encode_inert(self, text: str) -> list[int]:
        """Return the ids of ``text`` in the middle of a text, without any control token."""
        cuts = [found.start() + 1 for found in self._lookalike.finditer(text)]
        ids: list[int] = []
        for start, end in pairwise([0, *cuts, len(text)]):
            ids += self.encode(self.anchor + text[start:end])[bool(self.anchor) :]
        return [at for at in ids if at not in self.control]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without special tokens; invalid bytes become U+FFFD.

        Special tokens around a thought stay, since only they separate it from the answer.
        """
        texts, start = [], 0
        for at, token in enumerate(ids):
            if token in self._thought_marks:
                texts += [_decode(self._backend, ids[start:at]), self._thought_marks[token]]
                start = at + 1
        return "".join([*texts, _decode(self._backend, ids[start:])])


class Writer:
    """Tokenises one piece with given contents."""

    def __init__(self, codec: Codec, piece: Piece) -> None:
        self._codec, self._piece = codec, piece
        self._skip = bool(piece.anchor)
        self._expected = self._controls(codec.encode(self._join(["x"] * len(piece))))
        self.ids = lru_cache(CACHED_CONTENTS)(self.write)
        """Returns the ids for contents; cached, do not mutate them."""

    def __reduce__(self) -> tuple[type[Writer], tuple[Codec, Piece]]:
        return Writer, (self._codec, self._piece)

    def __len__(self) -> int:
        return len(self._piece)

    def write(self, *contents: str) -> list[int]:
        trimmed = [trim(text) for trim, text in zip(self._piece.trims, contents, strict=True)]
        ids = self._codec.encode(self._join(trimmed))
        unknown = self._codec.unknown
        if self._controls(ids) != self._expected or (
            unknown and any(unknown in text for text in trimmed)
        ):
            return self._write_inert(trimmed)
        return ids[self._skip :]

    def _write_inert(self, contents: Sequence[str]) -> list[int]:
        first, *rest = self._piece.fixed
        anchor = self._codec.anchor
        ids = self._codec.encode(self._piece.anchor + first)[self._skip :]
        for content, fixed in zip(contents, rest, strict=True):
            ids += self._codec.encode_inert(content)
            ids += self._codec.encode(anchor + fixed)[bool(anchor) :]
        return ids

    def _join(self, contents: Iterable[str]) -> str:
        parts = zip_longest(self._piece.fixed, contents, fillvalue="")
        return self._piece.anchor + "".join(chain.from_iterable(parts))

    def _controls(self, ids: Iterable[int]) -> list[int]:
        control = self._codec.control
        return [at for at in ids if at in control]


def whole(text: str) -> str:
    r"""Return ``text`` with surrogate pairs joined and lone halves replaced by U+FFFD.

    >>> whole("a\ud83d\ude00b\ud83d")
    'a😀b�'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_LONGEST = 8
"""Maximum tokens of one character; longer runs of invalid bytes are shown unchanged."""


class TokenTexts:
    """The text of each token, for records that people read."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        is_fast = tokenizer.is_fast
        self._backend: Backend = tokenizer.backend_tokenizer if is_fast else tokenizer

    def __call__(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token; joined they are the whole text.

        A token is decoded together with the previous one, because some vocabularies write a space
        only between two words. If several tokens make one character, the last one gets its text.
        """
        texts, before, start = [], 0, 0
        for end in range(1, len(ids) + 1):
            known = self._decode(ids[before:start])
            whole = self._decode(ids[before:end])
            if whole.endswith("\ufffd") and end - start < _LONGEST:
                texts.append("")
                continue
            texts.append(whole[len(known) :])
            before, start = start, end
        if start < len(ids):
            texts[-1] = self._decode(ids[before:])[len(self._decode(ids[before:start])) :]
        return texts

    def _decode(self, ids: Sequence[int]) -> str:
        return _decode(self._backend, ids, skip_special_tokens=False)


def _decode(backend: Backend, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
    exact: dict[str, Any] = (
        {} if isinstance(backend, Tokenizer) else {"clean_up_tokenization_spaces": False}
    )
    text = backend.decode(list(ids), skip_special_tokens=skip_special_tokens, **exact)
    assert isinstance(text, str)
    return text

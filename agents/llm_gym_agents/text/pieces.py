"""``Pieces``: the text of each token, for records that people read."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

_LONGEST = 8
"""Tokens that one character may have; longer runs of broken bytes are shown as they are."""


class Pieces:
    """Cuts texts at the borders of their tokens.

    It has a copy of the tokenizer, because it is asked in a thread of its own, and Rust's refuses
    to be read while somebody else sets its padding.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._backend: Tokenizer | PreTrainedTokenizerBase = tokenizer
        if tokenizer.is_fast:
            self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())

    def __call__(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token; together they are the text of all.

        A token is decoded with the one before it: some vocabularies write a space only between two
        words. One that ends within a character has no text, and the one that ends it has it all.
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
        if isinstance(self._backend, Tokenizer):
            return self._backend.decode(list(ids), skip_special_tokens=False)
        text = self._backend.decode(list(ids), clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

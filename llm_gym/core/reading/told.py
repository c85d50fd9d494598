"""What a model was told, and whether a sentence of its reply does no more than quote it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from llm_gym.core.reading.cues import SENTENCES
from llm_gym.core.reading.dressing import squeeze

_LONGEST = 20_000  # characters, from the end


class Told(NamedTuple):
    """The texts that a model has read: rules, observations."""

    texts: tuple[str, ...] = ()

    def has(self, sentence: str) -> bool:
        """Return whether ``sentence`` is one of those that were told.

        >>> Told(("The wall is left. Go!",)).has("**the wall is LEFT**")
        True
        """
        said = squeeze(sentence)
        return any(said in _run(text) and said in _sentences(text) for text in self.texts)

    def has_start(self, start: str) -> bool:
        """Return whether a sentence that was told begins with ``start``: some words, not one."""
        said = squeeze(start)
        return said.count(" ") > 2 and any(
            told.startswith(said)
            for text in self.texts
            if said in _run(text)
            for told in _sentences(text)
        )


# Most sentences of a reply are new, which one search in the whole text shows. The rules stay.
@lru_cache(maxsize=64)
def _run(text: str) -> str:
    return " ".join(text[-_LONGEST:].casefold().split())


@lru_cache(maxsize=64)
def _sentences(text: str) -> frozenset[str]:
    return frozenset([squeeze(part) for part in SENTENCES.split(text[-_LONGEST:])])

"""``search``: finds documents of a corpus with BM25."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym.tools.definition import Tool, ToolError, text_definition

_WORD = re.compile(r"[^\W_]+")
MAX_QUERY_WORDS = 64
Postings = tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]


def words(text: str) -> list[str]:
    """Return the words of ``text`` in normalised form.

    >>> words("The Café, in 1984!")
    ['the', 'café', 'in', '1984']
    """
    return _WORD.findall(text.casefold())


class BM25:
    """An index over documents (Robertson and Zaragoza, 2009).

    Rare words count more, repetitions of a word count less and less, and long documents count less.
    The inverse document frequency is the variant that is never negative.

    Args:
        documents: Texts to search.
        k1: How soon repetitions of a word stop counting.
        b: How much the length of a document counts, from 0 to 1.

    >>> index = BM25(["the red fox", "the blue bird", "a red red rose"])
    >>> [at for at, _ in index.search("red rose", 2)]
    [2, 0]
    >>> index.search("green", 2)
    []
    """

    def __init__(self, documents: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        self.count, self.k1 = len(documents), k1
        bags = [Counter(words(document)) for document in documents]
        lengths = np.array([bag.total() for bag in bags], dtype=np.float64)
        mean = float(lengths.sum()) / max(self.count, 1) or 1.0
        self._norm = k1 * (1 - b + b * lengths / mean)
        self._found: dict[str, list[tuple[int, int]]] = {}
        for at, bag in enumerate(bags):
            for word, times in bag.items():
                self._found.setdefault(word, []).append((at, times))
        self._weights: dict[str, Postings] = {}

    def search(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return up to ``limit`` documents that share a word with ``query``, best first.

        Equal scores keep the order of the documents.
        """
        scores = np.zeros(self.count)
        for word in dict.fromkeys(words(query)[:MAX_QUERY_WORDS]):
            if word in self._found:
                at, weights = self._postings(word)
                scores[at] += weights
        best = np.argsort(-scores, kind="stable")[:limit]
        return [(int(at), float(scores[at])) for at in best if scores[at] > 0]

    def _postings(self, word: str) -> Postings:
        # Only for words that are asked for: a small index is built for a few searches.
        if word not in self._weights:
            pairs = self._found[word]
            at, times = np.array(pairs, dtype=np.intp).T
            rarity = math.log(1 + (self.count - len(pairs) + 0.5) / (len(pairs) + 0.5))
            self._weights[word] = at, rarity * times * (self.k1 + 1) / (times + self._norm[at])
        return self._weights[word]


MAX_QUERY_CHARS = 500


class SearchTool(Tool):
    """Finds the documents that fit a query best, by BM25.

    The index is built at the first search and is not pickled.

    Args:
        corpus: Documents by title, or the path of a JSON file that holds such an object.
        results: Documents shown per search.
        snippet_chars: Characters shown of each document.

    >>> tool = SearchTool({"Fox": "The fox is red.", "Whale": "The whale is blue."})
    >>> tool.execute(query="blue animal")
    '[1] Whale: The whale is blue.'
    """

    definition = text_definition(
        "search",
        "Search a collection of documents by keywords. The best matches are returned.",
        "query",
        "Keywords.",
    )
    timeout = None  # it does not wait for anything

    def __init__(
        self, corpus: Mapping[str, str] | str, *, results: int = 3, snippet_chars: int = 500
    ) -> None:
        check_range("results", results, 1)
        check_range("snippet_chars", snippet_chars, 1)
        self.corpus = _read(corpus) if isinstance(corpus, str) else dict(corpus)
        self.results, self.snippet_chars = results, snippet_chars
        self._index: BM25 | None = None

    def execute(self, /, **params: Any) -> str:
        if self._index is None:
            self._index = BM25([f"{title} {text}" for title, text in self.corpus.items()])
        query = params["query"][:MAX_QUERY_CHARS]
        if not query.strip():
            raise ToolError("The query is empty.")
        found = self._index.search(query, self.results)
        if not found:
            return "No document matches."
        documents = list(self.corpus.items())
        return "\n".join(
            f"[{rank}] {documents[at][0]}: {documents[at][1][: self.snippet_chars]}"
            for rank, (at, _) in enumerate(found, start=1)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_index": None}


def _read(path: str) -> dict[str, str]:
    try:
        corpus = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read the corpus {path}: {error}") from error
    if not isinstance(corpus, dict) or not all(isinstance(text, str) for text in corpus.values()):
        raise ConfigError(f"the corpus {path} must be a JSON object of texts by title")
    return corpus

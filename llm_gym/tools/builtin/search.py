"""``search``: finds documents of a corpus by their words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym.tools.builtin.bm25 import BM25
from llm_gym.tools.definition import Tool, ToolDefinition, ToolError

MAX_QUERY_CHARS = 500

_DEFINITION = ToolDefinition(
    "search",
    "Search a collection of documents by keywords. The best matches are returned.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Keywords."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


class SearchTool(Tool):
    """Finds the documents that fit a query best, by BM25.

    The index is built at the first search and is no part of a pickle.

    Args:
        corpus: Documents by title, or the path of a JSON file that holds such an object.
        results: Documents shown per search.
        snippet_chars: Characters shown of each.

    >>> tool = SearchTool({"Fox": "The fox is red.", "Whale": "The whale is blue."})
    >>> tool.execute(query="blue animal")
    '[1] Whale: The whale is blue.'
    """

    timeout = None  # it does not wait for anything

    def __init__(
        self, corpus: Mapping[str, str] | str, *, results: int = 3, snippet_chars: int = 500
    ) -> None:
        if results < 1:
            raise ConfigError(f"results must be at least 1, got {results}")
        if snippet_chars < 1:
            raise ConfigError(f"snippet_chars must be at least 1, got {snippet_chars}")
        self.corpus = _read(corpus) if isinstance(corpus, str) else dict(corpus)
        self.results, self.snippet_chars = results, snippet_chars
        self._index: BM25 | None = None

    @property
    def definition(self) -> ToolDefinition:
        return _DEFINITION

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

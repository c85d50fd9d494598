"""The page's own files, and the page as one file.

The modules of ``static`` import each other by relative names and in one way only
(``import { a, b } from "./x.js";``), and no two of them have a top-level name in common. So they
become one script by leaving those lines out, in the order of their imports; a browser test opens
the result.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|const|class|let) )", re.MULTILINE)


@cache
def static_files() -> dict[str, bytes]:
    """Return every file of the page by its name."""
    folder = resources.files("llm_gym.view").joinpath("static")
    kept = (each for each in folder.iterdir() if "." + each.name.rpartition(".")[2] in TYPES)
    return {each.name: each.read_bytes() for each in kept}


def content_type(name: str) -> str:
    """Return the media type of a file of the page."""
    return TYPES["." + name.rpartition(".")[2]]


def bundle(entry: str = "app.js") -> str:
    """Return the modules as one script."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        text = static_files()[name].decode()
        for needed in _IMPORT.findall(text):
            visit(needed)
        order.append(name)

    visit(entry)
    texts = (static_files()[name].decode() for name in order)
    parts = [_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def digest(text: str) -> str:
    """Return the source expression that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

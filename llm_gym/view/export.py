"""The files of the page, and the page with its data as one file that needs no server.

The modules of ``static`` import each other by relative names and in one way only
(``import { a, b } from "./x.js";``), and no two of them share a top-level name. ``bundle`` joins
them in the order of their imports and leaves those lines out; a browser test opens the result.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.view.api import Api, dump
from llm_gym.view.sources import ViewSource

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
    kept = (each for each in folder.iterdir() if Path(each.name).suffix in TYPES)
    return {each.name: each.read_bytes() for each in kept}


def bundle() -> str:
    """Return the modules as one script."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        text = static_files()[name].decode()
        for needed in _IMPORT.findall(text):
            visit(needed)
        order.append(name)

    visit("app.js")
    texts = (static_files()[name].decode() for name in order)
    parts = [_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def digest(text: str) -> str:
    """Return the source expression that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


MAX_BYTES = 256 * 2**20
"""Of records in one file; a browser has to hold all of it."""


def export(sources: Sequence[ViewSource], limit: int | None = None) -> bytes:
    """Return the page with its data.

    Args:
        sources: What it shows.
        limit: Most episodes of a file that are taken along; None for all.
    """
    api, size = Api(sources), 0
    data: dict[str, Any] = {"metrics": [], "episodes": [], "records": {}}
    data |= {"sources": api.about({}), "suite": api.suite({})}
    for number, source in enumerate(sources):
        query = {"source": str(number)}
        data["metrics"].append(api.metrics({**query, "from": "0"}))
        episodes = api.episodes(query)
        for at, file in enumerate(episodes["files"]):
            file["rows"] = file["rows"][:limit]
            lines = [row[0] for row in file["rows"]]
            for line, raw in zip(lines, source.files[at].records(lines), strict=True):
                size += len(raw)
                data["records"][f"{number}/{at}/{line}"] = json.loads(raw)
        data["episodes"].append(episodes)
        if size > MAX_BYTES:
            raise ConfigError(
                f"the records are larger than {MAX_BYTES >> 20} MiB, too large for a browser; "
                "name fewer files, or take fewer of each with --limit"
            )
    return _page(dump(data).decode())


def write_export(sources: Sequence[ViewSource], path: Path, limit: int | None = None) -> int:
    """Write the page to ``path`` and return its bytes."""
    page = export(sources, limit)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(page)
    part.replace(path)
    return len(page)


def _page(data: str) -> bytes:
    script, style = bundle(), static_files()["style.css"].decode()
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = static_files()["index.html"].decode()
    page = page.replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )
    page = page.replace('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>")
    page = page.replace('<link rel="icon" href="icon.svg">', '<link rel="icon" href="data:,">')
    before, tag, after = page.partition('<script type="module" src="app.js"></script>')
    assert tag, "the page must load app.js"
    parts = (before, f'<script type="application/json" id="data">{data}</script>\n')
    return "".join((*parts, f"<script>{script}</script>", after)).encode()

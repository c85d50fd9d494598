"""Hooks of ``mkdocs build``: generated pages, and links that leave ``docs/``.

Reference pages list the ``__all__`` of a module, so a new public name is on its page at once. A
name is documented once; other pages link to it. A link to a file of the repository outside of
``docs/`` becomes the path of that file.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

from benchmarks.lib.age import ages_table
from docs.draw_gallery import gallery

DOCS = Path(__file__).parent
REFERENCE: dict[str, tuple[str, ...]] = {
    "wrappers": (
        "llm_gym.wrappers",
        "llm_gym.wrappers.as_text",
        "llm_gym.wrappers.as_text.phrasebooks",
    ),
    "episodes": ("llm_gym.episodes",),
    "tools": ("llm_gym.tools", "llm_gym.reading.parsers"),
    "sandbox": ("llm_gym.tools.sandbox",),
    "datasets": ("llm_gym.datasets",),
    "endpoint": ("llm_gym.evaluate.endpoint",),
    "server": ("llm_gym.server.run",),
    "vector": ("llm_gym.vector",),
    "llm_gym": ("llm_gym",),
    "engines": (
        "llm_gym_agents.engines.base",
        "llm_gym_agents.engines.transformers.engine",
        "llm_gym_agents.engines.vllm.engine",
        "llm_gym_agents.engines.sglang.engine",
    ),
    "algo": ("llm_gym_agents.algo",),
    "parts": (
        "llm_gym_agents.text.chat",
        "llm_gym_agents.text.tokenizers",
        "llm_gym_agents.model.load",
        "llm_gym_agents.rollouts.tasks",
        "llm_gym_agents.rollouts.sampler",
        "llm_gym_agents.rollouts.rollout_data",
        "llm_gym_agents.rollouts.pack",
        "llm_gym_agents.learn.ppo",
        "llm_gym_agents.learn.learner",
    ),
    "export": tuple(
        f"llm_gym_agents.export.{name}"
        for name in ("episodes", "skyrl", "trl", "verifiers", "verl")
    ),
    "llm_gym_agents": ("llm_gym_agents", "llm_gym_agents.config"),
}
"""Page → modules whose public names it lists; the first page of a name documents it."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|/)([^)#\s]+)(?:#[^)\s]*)?\)")
_AGES = re.compile(r"<!-- ages -->.*?<!-- /ages -->", re.DOTALL)
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Shows examples of docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around a doctest that stands outside of a section."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", text)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, the notebooks and the gallery."""
    pages = {f"reference/{page}.md": content for page, content in reference().items()}
    pages |= {
        f"notebooks/{path.stem}.md": notebook(path) for path in DOCS.glob("notebooks/*.ipynb")
    }
    page, pictures = gallery()
    for path, content in (pages | {"gallery.md": page} | pictures).items():
        files.append(File.generated(config, path, content=content))
    return files


def notebook(path: Path) -> str:
    """Return the cells of a notebook as a page."""
    shown = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        shown.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join([*shown, f"[The notebook]({path.name})"])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the path instead of a link that leaves ``docs/``, and fill in the ages of results."""
    folder = (DOCS / page.file.src_uri).parent
    markdown = _AGES.sub(lambda _: ages_table(), markdown)

    def target(found: re.Match[str]) -> str:
        path = (folder / found[2]).resolve()
        if path.is_relative_to(DOCS.resolve()):
            return found[0]
        inside = path.relative_to(DOCS.resolve().parent).as_posix()
        return found[1] if inside in found[1] else f"{found[1]} (`{inside}`)"

    return _LINK.sub(target, markdown)


def reference() -> dict[str, str]:
    """Return the pages that document every public name."""
    seen: set[str] = set()
    pages = {}
    for page, modules in REFERENCE.items():
        lines = [f"# {page}\n"] if len(modules) > 1 else []
        for module in modules:
            homes = {name: home_of(module, name) for name in public(module)}
            lines.append(f"{'##' if lines else '#'} `{module}`\n")
            linked = [f"[`{name}`][{home}]" for name, home in homes.items() if home in seen]
            lines += [f"Documented elsewhere: {', '.join(linked)}.\n"] if linked else []
            lines += [f"::: {home}\n" for home in homes.values() if home not in seen]
            seen |= set(homes.values())
        pages[page] = "\n".join(lines)
    return pages


def public(module: str) -> list[str]:
    """Return the public names of a module: ``__all__``, or what it defines itself."""
    found = import_module(module)
    own = [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]
    return list(getattr(found, "__all__", own))


def home_of(module: str, name: str) -> str:
    """Return where a public name is defined."""
    value = getattr(import_module(module), name)
    home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if callable(value) and home and own and home.startswith("llm_gym"):
        return f"{home}.{own}"
    return value.__name__ if hasattr(value, "__path__") else f"{module}.{name}"

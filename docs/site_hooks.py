"""Hooks of ``mkdocs build``: pages of the API reference, and links that leave ``docs/``.

Reference pages list the ``__all__`` of a module, so a new public name is on its page at once. A
link to a file of the repository outside of ``docs/`` becomes the path of that file.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

DOCS = Path(__file__).parent
REFERENCE: dict[str, tuple[str, ...]] = {
    "llm_gym": ("llm_gym",),
    "wrappers": ("llm_gym.wrappers",),
    "episodes": ("llm_gym.episodes",),
    "tools": ("llm_gym.tools", "llm_gym.parsing"),
    "sandbox": ("llm_gym.sandbox",),
    "datasets": ("llm_gym.datasets",),
    "endpoint": ("llm_gym.endpoint",),
    "llm_gym_agents": ("llm_gym_agents",),
    "engines": (
        "llm_gym_agents.engines.base",
        "llm_gym_agents.engines.transformers.engine",
        "llm_gym_agents.engines.vllm.engine",
        "llm_gym_agents.engines.sglang.engine",
    ),
    "algo": ("llm_gym_agents.algo",),
}
"""Page → modules whose public names it lists."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|/)([^)#\s]+)(?:#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference."""
    for page, modules in REFERENCE.items():
        files.append(File.generated(config, f"reference/{page}.md", content=reference(modules)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the path instead of a link that leaves ``docs/``."""
    folder = (DOCS / page.file.src_uri).parent

    def target(found: re.Match[str]) -> str:
        path = (folder / found[2]).resolve()
        if path.is_relative_to(DOCS.resolve()):
            return found[0]
        inside = path.relative_to(DOCS.resolve().parent).as_posix()
        return found[1] if inside in found[1] else f"{found[1]} (`{inside}`)"

    return _LINK.sub(target, markdown)


def reference(modules: tuple[str, ...]) -> str:
    """Return the page that documents every public name of ``modules``."""
    lines = [f"# {modules[0].rpartition('.')[2]}\n"]
    for module in modules:
        lines.append(f"## `{module}`\n")
        lines += [f"::: {home}\n" for home in dict.fromkeys(map(_home, *public(module)))]
    return "\n".join(lines)


def public(module: str) -> tuple[list[str], list[str]]:
    """Return the module again and again, and its public names: those of ``__all__``, or its own."""
    found = import_module(module)
    names = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]
    return [module] * len(names), list(names)


def _home(module: str, name: str) -> str:
    """Return where a public name is defined."""
    value = getattr(import_module(module), name)
    if isinstance(value, type) or callable(value):
        home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if home and own and home.startswith("llm_gym"):
            return f"{home}.{own}"
    return value.__name__ if hasattr(value, "__path__") else f"{module}.{name}"

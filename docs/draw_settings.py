# ruff: noqa: E501 - a page
"""Write ``docs/settings.md``: every setting with its type, default and meaning.

A test also asks ``users_of`` whether any code reads a setting.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from llm_gym_agents.config.defaults import RULES
from llm_gym_agents.config.schema import SECTIONS

SOURCE = Path(__file__).parents[1] / "agents/llm_gym_agents"
SKIPPED = ("commands", "config", "recipes.py")
"""Rooms that only set, check or print settings."""
HEAD = """<!-- docs/draw_settings.py writes this page -->

# Settings

On the command line a setting is `--section.setting VALUE` (`--training.learning-rate 1e-5`, `--ray.use-ray`,
`--environment.env-kwargs rooms=8`); in Python `config.section.setting = value`; in a file `section: {setting: value}`.
No value is `None`, in YAML `null`. `llm-gym train --help-settings` prints this list.

A default marked \\* is that of a `ConfigStore` in Python; `llm-gym train` chooses it [by task](#defaults-by-task).
"""
DEFAULTS = """
## Defaults by task

`llm-gym train ID` fills unset options from this table, by model (embedded, full, LoRA) and environment (ours, others
in words by `AsText`, other text). With `--dry-run` it prints each choice with its reason, and marks your own. Recipes
and a `ConfigStore` made in Python do not use this table.

| setting | task: value |
|---|---|
"""
_PROPERTIES = {
    "model_name": "is_embedded",
    "num_epochs": "iterations",
    "num_iters_per_epoch": "iterations",
}
"""Settings that are also read through a property of their section."""
_KINDS = {int: "int", float: "float", bool: "bool", str: "str"}
_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for name, section in SECTIONS.items():
        parts.append(f"\n## {name}\n\n{section.__doc__}\n\n")
        parts.append("| setting | type | default | meaning |\n|---|---|---|---|\n")
        for setting, field in section.model_fields.items():
            about = " ".join(str(field.description).split()).replace("|", "\\|")
            cells = (f"`{setting}`", _kind(field), _default(name, setting, field), about)
            parts.append(f"| {' | '.join(cells)} |\n")
    parts.append(DEFAULTS)
    parts += (f"| {settings} | {values} |\n" for settings, values in _defaults_by_task())
    return "".join(parts)


def _defaults_by_task() -> list[tuple[str, str]]:
    """Return the rows of the defaults: settings with equal values share one."""
    values: dict[str, list[str]] = {}
    for rule in RULES:
        task = "" if rule.task == "any" else f"{rule.task}: "
        values.setdefault(rule.setting, []).append(f"{task}{rule.shown}")
    shared: dict[str, list[str]] = {}
    for setting, lines in values.items():
        shared.setdefault("<br>".join(lines), []).append(f"`{setting}`")
    return [(", ".join(names), lines) for lines, names in shared.items()]


@cache
def _sources() -> dict[Path, str]:
    paths = SOURCE.rglob("*.py")
    kept = [path for path in paths if path.relative_to(SOURCE).parts[0] not in SKIPPED]
    return {path: path.read_text() for path in kept}


def users_of(section: str, setting: str) -> set[str]:
    """Return the rooms of the trainer whose code reads a setting."""
    names = f"(?:{setting}|{_PROPERTIES.get(setting, setting)})"
    read = re.compile(rf"\b_?(?:config|settings|own|{section})(?:\.{section})?\.{names}\b")
    found = {
        path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for path, text in _sources().items()
        if (f".{setting}" in text or setting in _PROPERTIES) and read.search(text)
    }
    if f"{section}.{setting}" == "environment.max_steps":
        found.add("llm_gym.core.legacy")  # a BaseEnvironment is given the section as its config
    return found


def _default(section: str, setting: str, field: FieldInfo) -> str:
    by_task = any(rule.setting.startswith(f"{section}.{setting}") for rule in RULES)
    return f"`{field.get_default(call_default_factory=True)!r}`" + " \\*" * by_task


def _kind(field: FieldInfo) -> str:
    """Return what a setting takes."""
    bounds = list(_bounds(field.metadata))
    words = []
    for option in get_args(field.annotation) if _is_union(field.annotation) else [field.annotation]:
        if get_origin(option) is Annotated:
            bounds += _bounds(get_args(option)[1:])
            option = get_args(option)[0]
        if get_origin(option) is Literal:
            words.append(", ".join(f"`{each}`" for each in get_args(option)))
        elif get_origin(option) is dict:
            words.append("dict")
        elif get_origin(option) is list:
            words.append("list of str")
        elif option is not NoneType:
            words.append(f"{_KINDS[option]} {', '.join(bounds)}".strip())
    return " or ".join([*words, "None"] if _is_union(field.annotation) else words)


def _is_union(kind: Any) -> bool:
    return NoneType in get_args(kind)


def _bounds(metadata: Any) -> Iterator[str]:
    for each in metadata:
        for name, word in _BOUNDS.items():
            if (end := getattr(each, name, None)) is not None:
                yield f"{word} {end:g}"
        yield from _bounds(getattr(each, "metadata", ()))


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page())

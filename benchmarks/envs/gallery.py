# ruff: noqa: E501 - a page
"""Show how environments of other packages read in text: writes ``docs/reports/gallery.md``.

Every text on the page is what ``AsText`` says without a phrasebook, as it is, good or not. Packages
that are not installed keep the text that the page had before.

    python -m benchmarks.envs.gallery
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym

from llm_gym.wrappers import AsText

PAGE = Path(__file__).parents[2] / "docs" / "reports" / "gallery.md"
LONGEST = 1800  # characters of a text that the page shows
Row = tuple[str, str, str, dict[str, Any], dict[str, Any]]
# Distribution, module, id, settings of the environment, settings of AsText.
SHOWN: tuple[Row, ...] = (
    ("ale-py", "ale_py", "ALE/Breakout-v5", {}, {}),
    ("minigrid", "minigrid", "MiniGrid-DoorKey-5x5-v0", {}, {}),
    ("gymnasium", "gymnasium", "LunarLander-v3", {"continuous": True}, {}),
)
HEAD = """# Environments of other packages in words

`AsText` knows nothing about these packages: it reads their spaces, attributes and docstrings. MiniGrid and LunarLander
have a phrasebook. Each text is the first observation, shortened, and the answer to a random move. Where it reads badly,
write a [phrasebook](../own_environment.md#any-gymnasium-environment-astext) of about ten lines.

Written by `python -m benchmarks.envs.gallery`.
"""


def show(row: Row) -> str | None:
    """Return the section of one environment, or None where its package is missing."""
    package, module, env_id, settings, words = row
    try:
        gym.register_envs(import_module(module))
    except ImportError:
        return None
    env = AsText(gym.make(env_id, **settings), **words)
    first, _ = env.reset(seed=0)
    move = env.random_action()
    then, reward, *_ = env.step(move)
    env.close()
    given = "".join(f", {name}={value!r}" for name, value in {**settings, **words}.items())
    return (
        f"## {package} {version(package)}\n\n`make_text({env_id!r}{given})`\n\n"
        f"```text\n{_cut(first)}\n```\n\nAfter `{move}`, reward {float(reward):g}:\n\n"
        f"```text\n{_cut(then)}\n```\n"
    )


def _cut(text: str) -> str:
    text = "\n".join(line.rstrip() for line in text.splitlines())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[... cut for this page]"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    warnings.simplefilter("ignore")
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    kept = {part.split(" ", 2)[1]: part for part in re.split(r"^(?=## )", before, flags=re.M)[1:]}
    sections = [show(row) or f"{kept.get(row[0], '').rstrip()}\n".lstrip() for row in SHOWN]
    PAGE.write_text("\n".join([HEAD, *filter(None, sections)]), "utf-8")


if __name__ == "__main__":
    main()

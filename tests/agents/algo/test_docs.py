from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_gym_agents.algo import ADVANTAGES, AGGREGATIONS, POLICY_LOSSES

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
SECTIONS = {section.split("\n", 1)[0]: section for section in PAGE.split("\n### ")[1:]}


def built_in(registry) -> list[str]:
    return [
        name
        for name in registry.names()
        if registry.get(name).function.__module__.startswith("llm_gym_agents.algo.")
    ]


@pytest.mark.parametrize("name", sorted({*built_in(ADVANTAGES), *built_in(POLICY_LOSSES)}))
def test_every_estimator_and_loss_has_a_section_with_reason_and_peers(name: str) -> None:
    sections = [text for title, text in SECTIONS.items() if title.split()[0] == f"`{name}`"]
    registered = (name in ADVANTAGES.names()) + (name in POLICY_LOSSES.names())
    assert len(sections) == registered
    for text in sections:
        assert "*Why:*" in text
        assert "| verl | TRL | AgileRL" in text


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_every_aggregation_is_in_the_table(mode: str) -> None:
    assert f"| `{mode}` |" in PAGE


def test_the_code_on_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["loss"].isfinite()

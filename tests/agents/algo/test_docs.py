from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_gym_agents.algo import ADVANTAGES, AGGREGATIONS, POLICY_LOSSES

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()


def built_in(registry) -> list[str]:
    return [
        name
        for name in registry.names()
        if registry.get(name).function.__module__.startswith("llm_gym_agents.algo.")
    ]


@pytest.mark.parametrize("name", sorted({*built_in(ADVANTAGES), *built_in(POLICY_LOSSES)}))
def test_every_estimator_and_loss_has_a_row_with_formula_and_reason(name: str) -> None:
    rows = re.findall(rf"^\| `{name}` \| (.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == (name in ADVANTAGES.names()) + (name in POLICY_LOSSES.names())


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_every_aggregation_is_in_the_table(mode: str) -> None:
    assert f"| `{mode}` |" in PAGE

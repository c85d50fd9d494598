# ruff: noqa: E501 - rows of a table
"""Write ``docs/defaults.md`` from the table in ``llm_gym_agents.config.defaults``."""

from pathlib import Path

from llm_gym_agents.config.defaults import RULES

HEAD = """# Defaults by situation

`llm-gym train ID` fills in every setting that nobody chose from one table, by what is trained on
what: the embedded model, a given one or adapters on one; an environment of ours, one in words, one
that speaks text by itself. It prints what it chose and why, marks what was chosen by you, and
writes both to the run's folder (`config.json`, `choices.json`). Any of them can be changed:
`--section.setting VALUE`. A recipe is complete as it is and takes nothing from here, and so is a
`ConfigStore` that a program makes; `apply_defaults(config, look(config))` does the same there.

Written by `docs/draw_defaults.py`; a test holds it to the code.

| setting | value | in which situation | why |
|---|---|---|---|
"""
PEERS = """
## Beside verl and TRL

The values of verl 0.9.1 (`ppo_trainer.yaml`) and TRL 1.16 (`GRPOConfig`) are made for models of
billions of weights on clusters, single-turn answers and rewards of 0 or 1.

| | here: embedded / full / LoRA | verl | TRL | why ours differ |
|---|---|---|---|---|
| learning rate | 1e-3 / 2e-5 / 2e-4 | 1e-6 | 1e-6 | smaller models: 2e-5 is what a 135M model was measured to learn at |
| decay of the rate | linear | constant | linear | at a constant rate GuessTheNumber fell from .88 to .77 |
| passes over a batch | 2 / 1 / 1 | 1 | 1 | on a CPU playing costs as much as learning |
| episodes of an optimizer step | 32 | 256 | by device | a run has thousands of episodes, not millions |
| weight decay | 0 | 0.01 | 0 | nothing is over-fitted in so few steps |
| discount of a turn | 0.9 to 0.97 | 1.0 | none | episodes of many turns: credit has to find its turn |
| reply length | by the longest move | 512 | 256 | a move is a few words; every reply that is cut is lost |
| context | what the game says of its observations | whole | whole | a map does not need its past |
| warm start | auto | none | none | what writes no legal move never sees a reward that differs |
"""


def page() -> str:
    """Return the whole page."""
    rows = []
    for rule in RULES:
        rows.append(f"| `{rule.setting}` | {rule.shown} | {rule.situation} | {rule.reason} |\n")
    return HEAD + "".join(rows) + PEERS


if __name__ == "__main__":
    (Path(__file__).parent / "defaults.md").write_text(page())

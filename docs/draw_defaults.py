# ruff: noqa: E501 - rows of a table
"""Write ``docs/defaults.md`` from the table in ``llm_gym_agents.config.defaults``."""

from pathlib import Path

from llm_gym_agents.config.defaults import RULES

HEAD = """# Defaults

`llm-gym train ID` fills unset options from this table, by model (built-in, full, LoRA) and environment (ours, in words
by `AsText`, text by itself). It prints each choice with its reason, marks yours, and writes both to the run's folder
(`config.json`, `choices.json`). Change any with `--section.setting VALUE`. Recipes and a `ConfigStore` made in Python do
not use this table.

Written by `docs/draw_defaults.py`; a test compares.

| setting | value | for which tasks | why |
|---|---|---|---|
"""
PEERS = """
## Beside verl and TRL

verl 0.9.1 and TRL 1.16.0 have defaults for models of billions of weights, single-turn answers and rewards of 0 or 1.

| | here: embedded / full / LoRA | verl | TRL | why ours differ |
|---|---|---|---|---|
| learning rate | 1e-3 / 2e-5 at 135M, 1e-6 at 7B / ten times that | 1e-6 | 1e-6 | smaller models: 2e-5 is what a 135M model was measured to learn at |
| decay of the rate | linear | constant | linear | at a constant rate GuessTheNumber fell from .88 to .77 |
| passes over a batch | 2 / 1 / 1 | 1 | 1 | on a CPU playing costs as much as learning |
| episodes of an optimizer step | 8 to 64 / 32 / 32 | 256 | 8 a device | a run has thousands of episodes, not millions |
| learning rate of the critic | 1e-3 / 1e-4 at 135M, 5e-6 at 7B / as the policy's | 1e-5 | no critic | it begins at 0, on the policy's own trunk |
| weight decay | 0 | 0.01 | 0 | nothing is over-fitted in so few steps |
| discount of a turn | 0.9 to 0.97 | 1.0 (of a token) | none | episodes of many turns: credit has to find its turn |
| reply length | by the longest move, 1024 if it thinks | 512 | 512 | a move is a few words; every reply that is cut is lost |
| context | what the game says of its observations | whole | whole | a map does not need its past |
| warm start | auto | none | none | what writes no legal move never sees a reward that differs |

[Stabilizers](training.md#stabilizers):

| stabilizer | here | verl | TRL |
|---|---|---|---|
| step size | learning rate times signal, within a KL of `training.max_kl` | learning rate | learning rate |
| entropy bonus | 0.01 / 0 / 0, times the signal | 0, fixed | 0; `use_adaptive_entropy` steps it by 0.005 towards 0.2 nats |
| groups without spread | kept; `training.resample_zero_variance_groups` | kept; `filter_groups`, any number of batches | kept |
| replies that were cut | learned from; `training.mask_truncated_replies` | learned from | learned from; `mask_truncated_completions` |
| critic | on the policy's trunk; detached or a copy by `model.critic` | a model of its own | none |
| values | as they are; `training.normalise_values` | as they are, clipped at 0.5 | none |
| sampler and trainer disagree | tokens weighed, at most 2; `training.max_sampler_kl` drops episodes | not corrected; `rollout_is`, `rollout_rs` | with vLLM, episodes whose ratio is above 3 are dropped |
| a fall | back to the best weights, with half the KL limit | none | none |
| end of a run | the weights of the best evaluation | the last | the last; `load_best_model_at_end` |
| early stop | embedded: at 94 % for sure | none | by a callback |
"""


def page() -> str:
    """Return the whole page."""
    rows = []
    for rule in RULES:
        rows.append(f"| `{rule.setting}` | {rule.shown} | {rule.task} | {rule.reason} |\n")
    return HEAD + "".join(rows) + PEERS


if __name__ == "__main__":
    (Path(__file__).parent / "defaults.md").write_text(page())

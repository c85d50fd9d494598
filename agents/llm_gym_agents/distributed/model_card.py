"""``model_card``: the README.md of a trained model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import llm_gym
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.run.metrics import EVAL_RETURN, EVAL_SUCCESS, FROM_SOLVER, ITERATION, Row


def model_card(
    config: ConfigStore, rows: Sequence[Row], warm_start: Mapping[str, float] | None, source: str
) -> str:
    """Return the card of the model that a run ended with.

    Args:
        config: Of the run.
        rows: Its metrics.
        warm_start: What the warm start measured; None without one.
        source: The checkpoint that the model comes from.
    """
    env, base, embedded = (
        config.environment.env_id,
        config.model.model_name,
        config.model.is_embedded,
    )
    is_folder = Path(base).exists()
    base = Path(base).name if is_folder else base
    head = ["library_name: transformers", "pipeline_tag: text-generation"]
    head += ["tags: [llm-gym, reinforcement-learning]"]
    head += ["license: other"]  # the owner's to choose, or that of the base model
    if not embedded and not is_folder:
        head.append(f"base_model: {base}")
    about = {
        "environment": f"`{env}`" if isinstance(env, str) else str(env),
        "base model": "none named: made on the spot, or passed in" if embedded else base,
        "imitated before training": _imitated(config, warm_start),
        "advantages": config.training.adv_estimator,
        "seed": str(config.training.seed),
        "checkpoint": source,
        "command": f"`{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}`",
        "llm-gym": f"{llm_gym.__version__}{_commit()}",
    }
    lines = ["---", *head, "---", f"# {'A model' if embedded else base} on {env}", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in about.items())]
    lines += ["", "Held-out success, with 95 % intervals:", "", _table(rows, warm_start or {}), ""]
    lines += ["```python", "from transformers import AutoModelForCausalLM, AutoTokenizer", ""]
    lines += ['model = AutoModelForCausalLM.from_pretrained("PATH")']
    lines += ['tokenizer = AutoTokenizer.from_pretrained("PATH")', "```"]
    if config.model.lora_rank:
        lines += ["", "The weights are merged; `adapter/` holds the LoRA adapter for PEFT."]
    return "\n".join(lines) + "\n"


def _imitated(config: ConfigStore, warm_start: Mapping[str, float] | None) -> str:
    if not warm_start:
        return "nobody"
    if warm_start.get(FROM_SOLVER):
        return "the solver of the environment"
    return "the episodes of a file" if config.warm_start.player == "file" else "random legal moves"


def _table(rows: Sequence[Row], warm_start: Mapping[str, float]) -> str:
    """Return the first, the best and the last evaluation, and that of the warm start."""
    told = ["| iteration | success | interval | return |", "| --- | ---: | ---: | ---: |"]
    if "warm_start/success" in warm_start:
        told.append(_line("warm start", warm_start, "warm_start/success"))
    evaluated = [row for row in rows if EVAL_SUCCESS in row]
    if evaluated:
        best = max(evaluated, key=lambda row: row[EVAL_SUCCESS])
        shown = {row[ITERATION]: row for row in (evaluated[0], best, evaluated[-1])}
        told += [_line(f"{at:.0f}", row, EVAL_SUCCESS) for at, row in sorted(shown.items())]
    return "\n".join(told) if len(told) > 2 else "not measured (environment.eval_interval is 0)"


def _line(name: str, row: Mapping[str, float], success: str) -> str:
    low, high = row.get(f"{success}_low"), row.get(f"{success}_high")
    interval = "" if low is None or high is None else f"{low:.1%} to {high:.1%}"
    earned = f"{row[EVAL_RETURN]:.3f}" if EVAL_RETURN in row else ""
    return f"| {name} | {row[success]:.1%} | {interval} | {earned} |"


def _commit() -> str:
    """Return the commit of the checkout that runs; nothing for an installed package."""
    root = Path(llm_gym.__file__).parents[1]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True
        )
    except OSError:
        return ""
    return f", commit {done.stdout.strip()}" if done.returncode == 0 else ""

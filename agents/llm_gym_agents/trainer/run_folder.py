"""``RunFolder``: what a run keeps on disk, and the README.md of its model.

``config.json``, ``metrics.jsonl``, ``tensorboard/``, ``episodes/``, ``checkpoints/``,
``warm-start/`` and ``final/``. One process at a time writes there, and the folder of another run
is refused.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from transformers import PreTrainedTokenizerBase

import llm_gym
from llm_gym import __version__
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.run import metrics
from llm_gym_agents.run.checkpoints import standing
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.text.codec import TokenTexts

RECORDED_EPISODES = 4
"""Maximum episodes of one record."""
WARM_START = "warm-start"
"""The checkpoint of a warm start."""
FINAL = "final"
"""The model that a run ended with."""


class RunFolder:
    """The folder of one run. Nothing is written before its lock is taken.

    Args:
        config: The settings of the run, read at each write: ``fit`` may still change them.
        ranks: The processes of the run; only the main one writes.
        tokenizer: Turns recorded tokens into text.
    """

    def __init__(
        self, config: ConfigStore, ranks: SingleProcess, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        settings = config.checkpoint
        self._config, self._ranks = config, ranks
        self.path = Path(settings.output_dir)
        self.checkpoints = ranks.checkpoints(
            self.path / "checkpoints", keep_last_n=settings.keep_last_n
        )
        self.recorder = RolloutRecorder(
            self.path,
            settings.record_every,
            RECORDED_EPISODES,
            TokenTexts(tokenizer),
            writes=ranks.is_main,
        )
        self.run_lock = RunLock(self.path)
        self._is_own = settings.resume

    def resumed_from(self, checkpoint: str | Path) -> None:
        """Record the loaded checkpoint; the folder belongs to this run only if it contains it."""
        self._is_own = Path(checkpoint).resolve().is_relative_to(self.path.resolve())

    def check_own(self) -> None:
        """Refuse the folder of another run, before anything is written there."""
        if not self._is_own:
            metrics.check_unused(self.path)

    def save_config(self) -> None:
        if self._ranks.is_main:
            self._config.save(self.path / "config.json")

    @contextmanager
    def open(self, iteration: int) -> Iterator[metrics.MetricsLog]:
        """Yield the log of the run after ``iteration``; the folder of another run is refused."""
        log = self._ranks.log(
            self.path,
            resume_after=iteration if self._is_own else None,
            tracker=self._config.checkpoint.tracker,
            config=self._config.to_dict(),
        )
        self._is_own = True
        with log:
            # ``MetricsLog`` has refused the folder of another run by now.
            self.save_config()
            self.checkpoints.drop_after(iteration)
            yield log

    def best(self, start: HeldOutSuccess | None) -> Path | None:
        """Return the best checkpoint that was evaluated, if any.

        ``start`` is the success after the warm start: if no checkpoint reaches it, the warm start
        is the best.
        """
        best = self.checkpoints.best()
        held = None if best is None else standing(best)
        if start is not None and (held is None or start.rank > held):
            return self.path / WARM_START
        return best

    def export_best_model(
        self, start: HeldOutSuccess | None, warm_start: Mapping[str, float] | None
    ) -> Path | None:
        """Copy the model of the best checkpoint to ``final``; return that checkpoint, if any."""
        best = self.checkpoints.latest()
        if self._config.checkpoint.end_with_best and self._config.environment.eval_interval:
            best = self.best(start) or best
        if best is not None:
            card = model_card(self._config, metrics.read_metrics(self.path), warm_start, best.name)
            self.checkpoints.put_apart(best, self.path / FINAL, card)
        return best


# --- the model card ----------------------------------------------------------------------


def model_card(
    config: ConfigStore,
    rows: Sequence[metrics.Row],
    warm_start: Mapping[str, float] | None,
    source: str,
) -> str:
    """Return the card of the model that a run ended with; it comes from the checkpoint ``source``.

    ``rows`` and ``warm_start`` are metrics.
    """
    env, base, embedded = (
        ", ".join(config.environment.env_ids) or None,
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
    given = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    command = re.sub(r"//[^/@\s]+@", "//***@", given)  # without passwords in addresses
    about = {
        "environment": f"`{env}`" if isinstance(env, str) else str(env),
        "base model": "none named: made on the spot, or passed in" if embedded else base,
        "imitated before training": imitated(config, warm_start),
        "advantages": config.training.adv_estimator,
        "seed": str(config.training.seed),
        "checkpoint": source,
        "command": f"`{command}`",
        "llm-gym": __version__,
        "commit": commit(),
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


def commit() -> str:
    """Return the commit of the running checkout, and whether files were changed."""
    root = Path(llm_gym.__file__).parents[1]
    git = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    # What is installed into a virtual environment may lie in a repository of somebody else.
    if (root / ".git").exists() and shutil.which("git"):
        found = subprocess.run(git, capture_output=True, text=True)
        if not found.returncode:
            return found.stdout.strip()
    return f"that of release {__version__}"


def imitated(config: ConfigStore, warm_start: Mapping[str, float] | None) -> str:
    """Return whose moves were imitated in a run."""
    if not warm_start:
        return "nobody"
    if config.warm_start.is_file:
        return "the episodes of a file"
    if config.warm_start.player == "reflex":
        return "the reflex player of the environment"
    if config.warm_start.player == "best_random":
        return "the best of many random episodes"
    others = "random legal moves"
    share = warm_start.get(metrics.FROM_SOLVER, 0.0)
    if 0.0 < share < 1.0:
        count = len(config.environment.mix)
        return f"the solver in {round(share * count)} of {count} environments, {others} elsewhere"
    return "the solver of the environment" if share else others


def _table(rows: Sequence[metrics.Row], warm_start: Mapping[str, float]) -> str:
    lines = ["| iteration | success | interval | return |", "| --- | ---: | ---: | ---: |"]
    if "warm_start/success" in warm_start:
        lines.append(_line("warm start", warm_start, "warm_start/success"))
    evaluated = [row for row in rows if metrics.EVAL_SUCCESS in row]
    if evaluated:
        best = max(evaluated, key=lambda row: row[metrics.EVAL_SUCCESS])
        shown = {row[metrics.ITERATION]: row for row in (evaluated[0], best, evaluated[-1])}
        lines += [
            _line(f"{at:.0f}", row, metrics.EVAL_SUCCESS) for at, row in sorted(shown.items())
        ]
    return "\n".join(lines) if len(lines) > 2 else "not measured (environment.eval_interval is 0)"


def _line(name: str, row: Mapping[str, float], success: str) -> str:
    low, high = row.get(f"{success}_low"), row.get(f"{success}_high")
    interval = "" if low is None or high is None else f"{low:.1%} to {high:.1%}"
    earned = f"{row[metrics.EVAL_RETURN]:.3f}" if metrics.EVAL_RETURN in row else ""
    return f"| {name} | {row[success]:.1%} | {interval} | {earned} |"

"""``PPOTrainer``: a config, an environment, and ``fit``.

An iteration (``learn.iteration``) plays episodes with the current weights, learns from them and
hands the new weights to the engine. This file is the run around it: what it is made of, when it
is evaluated, saved and over. Everything that decides what comes next is either in the checkpoint or
a function of the iteration, so a run that was killed goes on to the same numbers.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build import (
    build_one_env,
    check_arguments,
    dataset_env,
    is_embedded,
    language_model,
    list_callbacks,
    training_env,
    unsaved_args,
)
from llm_gym_agents.checkpoint import (
    Part,
    TrainerState,
    number,
    restore_lm,
    rng_state,
    set_rng_state,
)
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.place import Place
from llm_gym_agents.distributed.players import build_players, play_ahead
from llm_gym_agents.learn.iteration import BatchCollector, IterationRunner
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.schedule import Curriculum, EarlyStop, Schedule
from llm_gym_agents.learn.warm_start import WarmStart, warm_start_success
from llm_gym_agents.rollouts.evaluation import Evaluation, evaluate, evaluation_metrics
from llm_gym_agents.rollouts.tasks import EpisodeSelection
from llm_gym_agents.run import metrics
from llm_gym_agents.run.diagnostics import RunDiagnostics
from llm_gym_agents.run.process import StopRequested
from llm_gym_agents.run_folder import WARM_START, RunFolder

Callback = Callable[["PPOTrainer", dict[str, float]], None]
_log = logging.getLogger(__name__)


class PPOTrainer:
    """Trains a language model to play an environment.

    Args:
        config: Every setting of the run.
        environment: What is played: an id, a spec, a class, a function that makes one, an
            environment (``BaseEnvironment`` included). None takes ``config.environment.env_id``.
        reward_fn: ``(trajectory)`` or ``(trajectory, environment)``, sync or async: the reward of
            an episode, instead of the environment's own or added to it (``reward_mode``).
        dataset: Prompts with answers to train on instead of an environment.
        val_dataset: The same, for held-out evaluation.
        collate_fn: Turns a row of the data set into ``{"prompt": ..., "answer": ...}``.
        tokenizer: Instead of the model's own.
        model: A model that is trained in place instead of the one that the config names.
        callbacks: Called with the trainer and the metrics after every iteration.
    """

    def __init__(
        self,
        config: ConfigStore,
        environment: EnvSource | None = None,
        reward_fn: Callable[..., Any] | None = None,
        dataset: Any = None,
        val_dataset: Any = None,
        collate_fn: Callable[[Any], dict[str, Any]] | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        model: PreTrainedModel | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        check_arguments(config, model, tokenizer)
        config.check()
        # A copy, which ``fit`` completes: what is written to the folder says how the run went.
        self.config = config = copy.deepcopy(config)
        self.reward_fn, self.callbacks = reward_fn, list_callbacks(callbacks)
        self.environment = training_env(config, environment, dataset, collate_fn)
        if isinstance(self.environment, str):
            config.environment.env_id = self.environment
        self.unsaved_args = unsaved_args(
            environment, reward_fn=reward_fn, dataset=dataset, val_dataset=val_dataset
        )
        """What the program that trains has handed over: ``llm-gym resume`` cannot make it."""
        self.place = Place.of(config)
        # Every global generator: an environment of somebody's may draw from any of them.
        set_seed(config.training.seed % 2**32)  # NumPy's own takes no larger one
        self._embedded = model is None and is_embedded(config)
        lm, self.tokenizer = language_model(config, self.environment, model, tokenizer)
        self.learner = Learner(config, lm, self.place.ranks)
        held_out = None if val_dataset is None else dataset_env(config, val_dataset, collate_fn)
        players = (self.learner, self.tokenizer, self.environment, held_out)
        self.sampler, self.publisher = build_players(config, *players)
        self.schedule = Schedule(
            config,
            self.sampler.has_splits,
            lambda: bool((self.warm_start or {}).get(metrics.FROM_SOLVER)),
        )
        self.curriculum = Curriculum(config.environment.curriculum)
        play_ahead(self.sampler, lambda i: self.schedule.tasks_ahead(i, self.curriculum.difficulty))
        self._begin()
        self.files = RunFolder(config, self.place, self.tokenizer)
        self.folder, self.checkpoints = self.files.path, self.files.checkpoints
        collector = BatchCollector(
            config, self.sampler, reward_fn, self.environment, self.place.score
        )
        self._runner = IterationRunner(
            config=config,
            schedule=self.schedule,
            curriculum=self.curriculum,
            collector=collector,
            learner=self.learner,
            publisher=self.publisher,
            recorder=self.files.recorder,
            folder=self.folder,
        )

    def _begin(self) -> None:
        """Stand before the first iteration."""
        self.iteration = 0
        """Iterations that are done."""
        self.elapsed_s = 0.0
        """Seconds of training so far, over every process that had a part in it."""
        self.early_stop = EarlyStop(self.config)
        """Held-out success of the present weights, and whether it is enough."""
        self.warm_start: dict[str, float] | None = None
        """What the warm start brought, empty if there was none to do; None before it."""
        self.metrics_history: list[dict[str, float]] = []
        self.stopped = False
        """Whether SIGTERM ended the last ``fit`` early; its checkpoint is the newest."""
        self._stop = self.place.stop()
        self.diagnostics = RunDiagnostics(len(self.tokenizer))
        self.on_warning: Callable[[str], None] = _log.warning
        """Called with a sentence when the run shows a sign that it cannot learn."""
        self.ended_with_best = False
        """Whether the weights are not those of the last iteration, but the best."""

    # --- training ------------------------------------------------------------------------

    def fit(
        self, num_epochs: int | None = None, num_iters_per_epoch: int | None = None
    ) -> list[dict[str, float]]:
        """Train until the run has so many epochs in all; return the metrics of every iteration.

        A later call with more epochs goes on, and so does one after ``load_checkpoint``.
        """
        settings = self.config.training
        if num_epochs is not None:
            settings.num_epochs = num_epochs
        if num_iters_per_epoch is not None:
            settings.num_iters_per_epoch = num_iters_per_epoch
        self.config.check()
        self.lock_folder()
        goes_on = self.config.checkpoint.resume or self.ended_with_best
        if goes_on and (latest := self.checkpoints.latest()):
            self.load_checkpoint(latest)
        self.warm_up()
        with self.files.open(self.iteration) as log, self.place.stop() as self._stop:
            self.metrics_history = [self._named(row) for row in log.rows]
            self.diagnostics.catch_up(log.rows)
            while self.iteration < self.schedule.iterations and not self.early_stop.is_enough:
                before = rng_state()
                try:
                    with self.place.watching():
                        row = self._runner.train_iteration(
                            self.iteration, self.elapsed_s, self._stop
                        )
                except StopRequested:
                    self._save(before)
                    break
                self.elapsed_s = row[metrics.ELAPSED]
                # Evaluated before it is saved: a checkpoint knows how good its own weights are.
                row |= self._evaluate_now()
                self._tell(log, row)
                if self._stop.requested or self.early_stop.is_enough or self._is_due():
                    self._save()
                if self._stop.requested:
                    break
            self.stopped = self._stop.requested
        if not self.stopped:
            self._end()
        return self.metrics_history

    def _end(self) -> None:
        """Put the model of the run apart, and go back to its weights if they are not the last."""
        best = self.files.export_best_model(warm_start_success(self.warm_start))
        if best is not None and (best.name == WARM_START or number(best) != self.iteration):
            self.load_checkpoint(best)
            self.ended_with_best = True

    def _tell(self, log: metrics.MetricsLog, row: dict[str, float]) -> None:
        """Write and show what an iteration came to; it is done then."""
        if self.iteration == 0:
            row |= self.warm_start or {}
        advice = self.diagnostics.look(row)
        row |= self.diagnostics.metrics
        self.iteration += 1
        # Logged before it is saved: a run that is killed in between does the iteration again, and
        # the row of the same numbers takes the place of this one.
        log.log(self.iteration, row)
        self.metrics_history.append(self._named(log.rows[-1]))
        for callback in self.callbacks:
            callback(self, row)
        for each in advice:
            self.on_warning(each.sentence)

    def _named(self, row: dict[str, float]) -> dict[str, float]:
        return metrics.named(row, self.config.training.num_iters_per_epoch)

    def _save(self, rng: Part | None = None) -> None:
        """Write a checkpoint, with the generators as they were before an iteration broken off."""
        state = self._state()
        state.parts["rng"] = rng or state.parts["rng"]
        self.checkpoints.save(state, lm=self.learner.lm, tokenizer=self.tokenizer)

    def warm_up(self, say: Callable[[str], None] = _log.info) -> None:
        """Imitate before the first iteration, as ``config.warm_start`` says; once in a run.

        ``fit`` calls it. The weights it leaves are in ``warm-start``, a checkpoint of its own.
        """
        place, resumes = self.folder / WARM_START, self.config.checkpoint.resume
        done = self.warm_start is not None or self.iteration > 0
        if done or (resumes and self.checkpoints.latest() is not None):
            return  # ``fit`` goes on from what came after it
        if resumes and place.exists():
            return self.load_checkpoint(place)
        start = time.perf_counter()
        self.warm_start = WarmStart(
            config=self.config,
            sampler=self.sampler,
            learner=self.learner,
            make_env=lambda: build_one_env(self.config, self.environment),
            evaluate=self.evaluate,
            publish=lambda: self.publisher.publish(self.publisher.version),
            embedded=self._embedded,
            say=say,
        ).run()
        self.elapsed_s += time.perf_counter() - start
        if self.warm_start:
            self.save_checkpoint(place)

    # --- evaluation ----------------------------------------------------------------------

    def evaluate(self, episodes: EpisodeSelection = None, records: str | None = None) -> Evaluation:
        """Play held-out episodes, the same ones every time."""
        self.publisher.publish_if_outdated()
        result = evaluate(
            self.sampler,
            self.schedule.held_out_tasks(episodes),
            records if self.place.leads else None,
            version=self.publisher.version,
            greedy=self.config.environment.eval_greedy,
            held_out=True,
        )
        # What the engine still knows of these prompts could change the last bits of the next
        # log-probs, and a run that was killed and resumed does not know it.
        self.publisher.empty_cache()
        return result

    def _evaluate_now(self) -> dict[str, float]:
        done = self.iteration + 1
        if not self.schedule.evaluates_after(done):
            return self.early_stop.look(None)
        result = self.evaluate(records=str(self.folder / f"episodes/eval-{done:06d}.jsonl"))
        return evaluation_metrics(result) | self.early_stop.look(result)

    # --- the run's folder ----------------------------------------------------------------

    def save_checkpoint(self, path: str | Path) -> Path:
        """Write everything that the run needs to go on to the folder ``path``."""
        return self.place.save(path, self._state(), lm=self.learner.lm, tokenizer=self.tokenizer)

    def load_checkpoint(self, path: str | Path) -> None:
        """Go on from the checkpoint in the folder ``path``."""
        state = self.place.load(path, self.learner)
        self.learner.check_state(state.parts)
        restore_lm(self.learner.lm, state)
        self.learner.load_state(state.parts)
        run = state.parts["run"].values
        self.curriculum.difficulty, self.elapsed_s = run["difficulty"], run["elapsed_s"]
        self.warm_start = run["warm_start"]
        self.early_stop.load_state(run["early_stop"])
        self.iteration, self.ended_with_best = state.iteration, False
        set_rng_state(state.parts["rng"])
        self.publisher.publish(self.iteration)
        self.files.goes_on_from(path)

    def _state(self) -> TrainerState:
        """Return everything that decides how the run goes on, besides its language model."""
        run = {
            "difficulty": self.curriculum.difficulty,
            "elapsed_s": self.elapsed_s,
            "unsaved_args": self.unsaved_args,
            "warm_start": self.warm_start,
            "early_stop": self.early_stop.state(),
        }
        now = self.early_stop.now
        return TrainerState(
            iteration=self.iteration,
            config=self.config.to_dict(),
            parts=self.learner.state() | {"rng": rng_state(), "run": Part(values=run)},
            success=now and now.success,
            success_low=now and now.low,
        )

    def _is_due(self) -> bool:
        is_best = self.files.holds_no_better(self.early_stop.now)
        return is_best or self.schedule.saves_after(self.iteration)

    def lock_folder(self) -> None:
        """Keep other runs out of the run's folder until ``cleanup``. ``fit`` does it too."""
        self.files.lock()

    def cleanup(self) -> None:
        """End environments and engine and free their memory. Safe to call twice."""
        try:
            self.sampler.close()
        finally:
            self.files.release()


class RayPPOTrainer(PPOTrainer):
    """``PPOTrainer`` under a second name; ``config.ray.use_ray`` decides for both."""


def create_trainer(
    config: ConfigStore, environment: EnvSource | None = None, **kwargs: Any
) -> PPOTrainer:
    """Return ``PPOTrainer(config, environment, **kwargs)``."""
    return PPOTrainer(config, environment, **kwargs)

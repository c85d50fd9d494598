"""``PPOTrainer``: a config, an environment, and ``fit``.

Read ``fit`` first. An iteration (``learn.iteration``) plays episodes with the current weights,
learns from them and publishes the new weights to the engine; ``fit`` repeats it, evaluates, logs
and saves. The checkpoint and the iteration number determine the rest of a run, so a killed run
resumes with the same numbers.
"""

import copy
import functools
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError
from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.publish import Publisher, WeightPublisher
from llm_gym_agents.learn.iteration import BatchCollector, IterationRunner
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.schedule import EarlyStop, Schedule
from llm_gym_agents.learn.single_process import StopRequested
from llm_gym_agents.learn.warm_start import MEASURED, WarmStart, warm_start_success
from llm_gym_agents.model.weights import is_sharded
from llm_gym_agents.rollouts.evaluation import Evaluation, evaluate, evaluation_metrics
from llm_gym_agents.rollouts.mix import follow_success
from llm_gym_agents.rollouts.rewards import takes
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeSelection
from llm_gym_agents.run import metrics
from llm_gym_agents.run.checkpoints import TrainerState, load_checkpoint, number, restore_lm
from llm_gym_agents.run.diagnostics import RunDiagnostics
from llm_gym_agents.run.state import Part, rng_state, seed_generators, set_rng_state
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.run_folder import WARM_START, RunFolder

Callback = Callable[["PPOTrainer", dict[str, float]], None]
ON_COURSE = 0.2
"""Gain in held-out success after a quarter of the run below which ``auto`` imitates a solver."""
_log = logging.getLogger(__name__)


class PPOTrainer:
    """Trains a language model to play an environment.

    Args:
        config: Every setting of the run.
        environment: An id, a spec, a class, a factory, or an environment (also a
            ``BaseEnvironment``). None takes ``config.environment.env_id`` or
            ``config.environment.mix``.
        reward_fn: Function of ``(trajectory)`` or ``(trajectory, environment)``, sync or async. It
            returns the reward of an episode and replaces the environment's rewards, which are in
            ``trajectory.rewards``.
        dataset: Prompts with answers to train on instead of an environment.
        val_dataset: Data set for held-out evaluation.
        collate_fn: Turns a row of the data set into ``{"prompt": ..., "answer": ...}``.
        tokenizer: Replaces the model's tokenizer.
        model: A model to train in place, instead of the config's model.
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
        self.config = config = _checked_copy(config)
        build.check_model(config.model, model, tokenizer)
        self.reward_fn, self.callbacks = reward_fn, _checked_callbacks(callbacks)
        if val_dataset is not None and config.environment.mix:
            raise ConfigError("environment.mix is evaluated on itself, got a val_dataset too")
        self.environment = build.training_env(config.environment, environment, dataset, collate_fn)
        if isinstance(self.environment, str):
            config.environment.env_id = self.environment
        given = {"reward_fn": reward_fn, "dataset": dataset, "val_dataset": val_dataset}
        self.unsaved_args = [name for name, each in given.items() if each is not None]
        self.unsaved_args += ["environment"] * (not isinstance(environment, str | None))
        """Arguments that no checkpoint holds, so that ``llm-gym resume`` cannot restore them."""
        self.ranks = build.join_processes(config)
        seed_generators(config.training.seed)
        self._embedded = model is None and config.model.is_embedded
        lm, self.tokenizer = build.language_model(config, self.environment, model, tokenizer)
        self.learner = Learner(lm, config.training, config.model, config.inference, self.ranks)
        held_out = None
        if val_dataset is not None:
            held_out = build.dataset_env(config.environment, val_dataset, collate_fn)
        players = (self.learner, self.tokenizer, self.environment, held_out)
        self.sampler, self.publisher = build_players(config, *players)
        self.schedule = Schedule(
            config.training,
            config.environment,
            config.checkpoint,
            self.sampler.has_splits,
            self._solver_imitated_at,
            lambda: self.last_rate,
            lambda: self.mix_success,
        )
        if hasattr(self.sampler, "upcoming"):  # it can play ahead of the learner
            self.sampler.upcoming = self.schedule.tasks_ahead
        self._reset_progress()
        self.files = RunFolder(config, self.ranks, self.tokenizer)
        self.folder, self.checkpoints = self.files.path, self.files.checkpoints
        collector = BatchCollector(
            config.training, self.sampler, reward_fn, self.environment, self.ranks
        )
        self._runner = IterationRunner(
            schedule=self.schedule,
            inference=config.inference,
            collector=collector,
            learner=self.learner,
            publisher=self.publisher,
            recorder=self.files.recorder,
        )

    def _reset_progress(self) -> None:
        self.iteration = 0
        """Iterations done."""
        self.elapsed_s = 0.0
        """Seconds of training so far, summed over every resume."""
        self.last_rate = 1.0
        """Factor on the learning rates in the last iteration."""
        self.mix_success: dict[str, float] = {}
        """Running mean of the training success of each environment of a mix."""
        self.early_stop = EarlyStop(self.config.checkpoint, self.config.environment)
        """Held-out success of the current weights, and whether it is enough."""
        self.warm_start: dict[str, float] | None = None
        """Metrics of the warm start, empty if there was none to do; None before it."""
        self.metrics_history: list[dict[str, float]] = []
        self.stopped = False
        """Whether SIGTERM ended the last ``fit`` early; its checkpoint is the newest."""
        self._stop = self.ranks.stop()
        self.diagnostics = RunDiagnostics(len(self.tokenizer))
        self.on_warning: Callable[[str], None] = _log.warning
        """Called with a sentence when the metrics show that the run does not learn."""
        self.on_notice: Callable[[str], None] = _log.info
        """Called with a sentence when the run returns to its best weights."""
        self.ended_with_best = False
        """Whether ``fit`` loaded the best weights in place of the last."""

    # --- training ------------------------------------------------------------------------

    def fit(
        self, num_epochs: int | None = None, num_iters_per_epoch: int | None = None
    ) -> list[dict[str, float]]:
        """Train until the run has ``num_epochs`` in total; return the metrics of every iteration.

        A later call with more epochs continues, and so does one after ``load_checkpoint``.
        """
        given = {"num_epochs": num_epochs, "num_iters_per_epoch": num_iters_per_epoch}
        changed = {name: each for name, each in given.items() if each is not None}
        self.config.update({"training": changed})
        self.config.check()
        self.lock_folder()
        wanted = self.config.checkpoint.resume or self.ended_with_best
        if wanted and (latest := self.checkpoints.latest()):
            self.load_checkpoint(latest)
        self.warm_up()
        with self.files.open(self.iteration) as log, self.ranks.stop() as self._stop:
            self.metrics_history = [self._named(row) for row in log.rows]
            self.diagnostics.catch_up(log.rows)
            training = self.config.training
            while self.iteration < training.iterations and self.early_stop.why is None:
                rng_before = rng_state()
                try:
                    with self.ranks.watching():
                        row = self._runner.train_iteration(
                            self.iteration, self.elapsed_s, self._stop
                        )
                except StopRequested:  # SIGTERM while episodes were played: nothing was learned
                    self._save(rng_before)
                    break
                self.elapsed_s = row[metrics.ELAPSED]
                self.last_rate = self.schedule.update_settings(self.iteration)["rate"]
                # Evaluated before it is saved: a checkpoint holds the success of its own weights.
                row |= self._evaluate_if_due()
                # Logged before it is saved: a run killed in between repeats the iteration, and
                # the same row replaces this one.
                self._log_iteration(log, row)
                if self.early_stop.has_fallen:
                    self._return_to_best()
                if self._is_stuck():
                    self._imitate_solver()
                if self._stop.requested or self.early_stop.why or self._is_save_due():
                    self._save()
                if self._stop.requested:
                    break
            self.stopped = self._stop.requested
        self._end_with_best()
        return self.metrics_history

    def _log_iteration(self, log: metrics.MetricsLog, row: dict[str, float]) -> None:
        """Count the iteration as done, log its metrics, and call callbacks and warnings."""
        if self.iteration in (0, self._solver_imitated_at()):
            row |= self.warm_start or {}
        warnings = self.diagnostics.update(row)
        row |= self.diagnostics.metrics
        self.iteration += 1
        self.mix_success = follow_success(self.mix_success, row)
        log.log(self.iteration, row)
        self.metrics_history.append(self._named(log.rows[-1]))
        for callback in self.callbacks:
            callback(self, row)
        for sentence in warnings.values():
            self.on_warning(sentence)

    def _return_to_best(self) -> None:
        """Load the best weights and their optimizer state, and halve the KL limit."""
        stop, trust = self.early_stop, self.learner.ppo.trust
        best = self.files.best(warm_start_success(self.warm_start))
        if stop.now is None or stop.best is None or best is None:
            return
        narrowed = trust.narrowed / 2
        self._load_learner(best)
        trust.narrowed = narrowed
        self.publisher.publish(self.publisher.version)
        self.on_notice(
            f"held-out success fell from {stop.best.success:.1%} to {stop.now.success:.1%}: back "
            f"to the weights of {best.name}, with a KL limit of {trust.limit:.2g}"
        )
        stop.now = None  # a checkpoint from here on is not the best one again

    def _is_stuck(self) -> bool:
        """Whether a quarter of the run gained little and ``auto`` has not imitated a solver yet."""
        start = self.warm_start or {}
        unused = self.config.warm_start.player == "auto" and not start.get(metrics.FROM_SOLVER)
        if not unused or not self.schedule.is_second_chance(self.iteration):
            return False
        evaluated = [row["eval/success"] for row in self.metrics_history if "eval/success" in row]
        first = start.get("warm_start/success", evaluated[0])
        return max(evaluated) < first + ON_COURSE

    def _imitate_solver(self) -> None:
        """Imitate the solver in the middle of a run, if there is one; keep the result if better."""
        before = self.files.best(warm_start_success(self.warm_start))
        reached = self.early_stop.best
        why = f"{self.iteration} iterations of RL gained less than {ON_COURSE:.0%}"
        found = self._make_warm_start(self.on_notice).run_second(why)
        if not found:
            return
        taught = warm_start_success(found)
        if before and taught and reached and taught.success < reached.success:
            self._load_learner(before)
            self.publisher.publish(self.publisher.version)
            self.on_notice(
                f"imitating the solver led to {taught.success:.1%}, less than the "
                f"{reached.success:.1%} of {before.name}: back to these weights"
            )
            return
        self.warm_start = {**(self.warm_start or {}), **found, metrics.SOLVER_AT: self.iteration}
        self.early_stop.restart(taught)
        self.save_checkpoint(self.folder / WARM_START)
        self._save()

    def _solver_imitated_at(self) -> int | None:
        """Return the iteration before which a solver was imitated, or None."""
        start = self.warm_start or {}
        return int(start.get(metrics.SOLVER_AT, 0)) if start.get(metrics.FROM_SOLVER) else None

    def _end_with_best(self) -> None:
        """Export the best model, and load it unless it is the current one or the run goes on."""
        start = warm_start_success(self.warm_start)
        best = self.files.export_best_model(start, self.warm_start)
        if self.stopped:
            return
        if best is not None and (best.name == WARM_START or number(best) != self.iteration):
            self.load_checkpoint(best)
            self.ended_with_best = True

    def _named(self, row: dict[str, float]) -> dict[str, float]:
        return metrics.named(row, self.config.training.num_iters_per_epoch)

    def _save(self, rng: Part | None = None) -> None:
        """Write a checkpoint; ``rng`` is the generators' state before an interrupted iteration."""
        state = self._state()
        state.parts["rng"] = rng or state.parts["rng"]
        self.checkpoints.save(state, lm=self.learner.lm, tokenizer=self.tokenizer)

    def warm_up(
        self, say: Callable[[str], None] = _log.info, tick: Callable[[str], None] = _log.debug
    ) -> None:
        """Imitate before the first iteration, as ``config.warm_start`` says; once per run.

        ``fit`` calls it. Its weights are saved as the checkpoint ``warm-start``.
        """
        path, resume = self.folder / WARM_START, self.config.checkpoint.resume
        done = self.warm_start is not None or self.iteration > 0
        if done or (resume and self.checkpoints.latest() is not None):
            return  # ``fit`` resumes from a later checkpoint
        if resume and path.exists():
            return self.load_checkpoint(path)
        self.files.check_own()
        start = time.perf_counter()
        self.warm_start = self._make_warm_start(say, tick).run()
        self.elapsed_s += time.perf_counter() - start
        if self.warm_start:
            self.early_stop.best = warm_start_success(self.warm_start)
            self.files.save_config()  # without it nobody could resume from there
            self.save_checkpoint(path)

    def _make_warm_start(
        self, say: Callable[[str], None], tick: Callable[[str], None] = _log.debug
    ) -> WarmStart:
        mix = self.config.environment.mix
        make_envs = {
            name: functools.partial(build.build_one_env, self.config, name or self.environment)
            for name in mix or [""]
        }
        return WarmStart(
            settings=self.config.warm_start,
            training=self.config.training,
            train_split=self.config.environment.train_split,
            measured=min(MEASURED, self.config.environment.eval_episodes),
            folder=self.folder,
            sampler=self.sampler,
            learner=self.learner,
            make_envs=make_envs,
            mix=mix,
            evaluate=self.evaluate,
            publish=lambda: self.publisher.publish(self.publisher.version),
            embedded=self._embedded,
            say=say,
            tick=tick,
        )

    # --- evaluation ----------------------------------------------------------------------

    def evaluate(self, episodes: EpisodeSelection = None, records: str | None = None) -> Evaluation:
        """Play held-out episodes, the same ones every time."""
        self.publisher.publish_if_outdated()
        result = evaluate(
            self.sampler,
            self.schedule.held_out_tasks(episodes),
            records if self.ranks.is_main else None,
            version=self.publisher.version,
            held_out=True,
        )
        # A warm prefix cache could change the last bits of the next log-probs, and a resumed run
        # starts with a cold one.
        self.publisher.empty_cache()
        return result

    def _evaluate_if_due(self) -> dict[str, float]:
        done = self.iteration + 1
        if not self.schedule.evaluates_after(done):
            return self.early_stop.update(None)
        result = self.evaluate(records=str(self.folder / f"episodes/eval-{done:06d}.jsonl"))
        return evaluation_metrics(result) | self.early_stop.update(result)

    # --- the run's folder ----------------------------------------------------------------

    def save_checkpoint(self, path: str | Path) -> Path:
        """Write everything that the run needs to resume to the folder ``path``."""
        state, lm = self._state(), self.learner.lm
        return self.ranks.save_checkpoint(path, state, lm=lm, tokenizer=self.tokenizer)

    def load_checkpoint(self, path: str | Path) -> None:
        """Resume from the checkpoint in the folder ``path``."""
        state = self._load_learner(path)
        run = state.parts["run"].values
        self.elapsed_s, self.last_rate = run["elapsed_s"], run["last_rate"]
        self.mix_success = run["mix_success"]
        self.warm_start = run["warm_start"]
        self.early_stop.load_state(run["early_stop"])
        self.iteration, self.ended_with_best = state.iteration, False
        set_rng_state(state.parts["rng"])
        self.publisher.publish(self.iteration)
        self.files.resumed_from(path)

    def _load_learner(self, path: str | Path) -> TrainerState:
        sharded = is_sharded(self.learner.lm)
        state = load_checkpoint(path, self.learner.like if sharded else None)
        self.learner.check_state(state.parts)
        restore_lm(self.learner.lm, state)
        self.learner.load_state(state.parts)
        return state

    def _state(self) -> TrainerState:
        """Return everything that decides how the run continues, besides its language model."""
        run = {
            "elapsed_s": self.elapsed_s,
            "last_rate": self.last_rate,
            "mix_success": self.mix_success,
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

    def _is_save_due(self) -> bool:
        now = self.early_stop.now
        is_best = now is not None and self.checkpoints.is_best(now.success, now.low)
        return is_best or self.schedule.saves_after(self.iteration)

    def lock_folder(self) -> None:
        """Lock the run's folder until ``cleanup``. ``fit`` does this, too."""
        if self.ranks.is_main:
            self.files.run_lock.acquire()

    def cleanup(self) -> None:
        """Close environments and engine. Safe to call twice."""
        try:
            self.sampler.close()
        finally:
            self.files.run_lock.release()


class RayPPOTrainer(PPOTrainer):
    """``PPOTrainer`` under a second name; ``config.ray.use_ray`` turns Ray on in both."""


def create_trainer(
    config: ConfigStore, environment: EnvSource | None = None, **kwargs: Any
) -> PPOTrainer:
    """Return ``PPOTrainer(config, environment, **kwargs)``."""
    return PPOTrainer(config, environment, **kwargs)


# --- parts -------------------------------------------------------------------------------


def build_players(
    config: ConfigStore,
    learner: Learner,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> tuple[Player, WeightPublisher]:
    """Return the sampler and the publisher that sends it the weights of ``learner``."""
    ranks = learner.ranks
    sampler: Player
    publisher: WeightPublisher
    if config.ray.use_ray:
        from llm_gym_agents.trainer.ray.sampler import ray_players

        sampler, publisher = ray_players(config, learner.lm, ranks, tokenizer, env, held_out)
        sleeps = False
    else:
        own = sampler = build.build_sampler(config, learner.lm, tokenizer, env, held_out)
        publisher = Publisher(own.engine, learner.lm)
        sleeps = getattr(own.engine, "sleeps", False)
        if ranks.world > 1:
            from llm_gym_agents.trainer.process_group import RankSampler

            sampler = RankSampler(own, ranks)
    try:
        learner.use_cuda_graphs(engine_sleeps=sleeps)
        publisher.publish(0)
    except BaseException:
        sampler.close()
        raise
    return sampler, publisher


def _checked_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    if not isinstance(callbacks, Iterable) or not all(map(callable, found := list(callbacks))):
        raise ConfigError(f"callbacks must be a list of functions, got {callbacks!r:.100}")
    for each in found:
        if not takes(each, 2):
            raise ConfigError(f"a callback must take (trainer, metrics), got {each!r:.100}")
    return found


def _checked_copy(config: ConfigStore) -> ConfigStore:
    """Return a checked copy of a config; ``fit`` may complete it for the run's folder."""
    if not isinstance(config, ConfigStore):
        raise ConfigError(
            f"config must be a ConfigStore, got {type(config).__name__}; ConfigStore.from_dict "
            "makes one of a dictionary, and ConfigStore.load of a file"
        )
    config.check()
    return copy.deepcopy(config)

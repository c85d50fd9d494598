"""``PPOTrainer``: a config, an environment, and ``fit``.

An iteration plays named episodes with the current weights, trains on them (``ppo``) and hands
the new weights to the engine. Around that loop this file keeps the run's folder: config,
metrics, episode records, checkpoints. Everything that decides what comes next is either in the
checkpoint or a function of the iteration, so a run that was killed goes on to the same numbers.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents import algo
from llm_gym_agents.build import (
    build_engine,
    build_lm,
    build_policy,
    build_pool,
    check_tokenizer,
    dataset_env,
    most_tokens,
    prepare_lm,
    training_env,
)
from llm_gym_agents.checkpoint import Checkpoints, load_checkpoint, save_checkpoint
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.model import PolicyValueModel
from llm_gym_agents.learn.ppo import PPO, NotFiniteError
from llm_gym_agents.learn.publish import Publisher
from llm_gym_agents.learn.schedule import Curriculum, learning_rate_factor
from llm_gym_agents.rollouts.collect import EpisodeCollector, Rollout
from llm_gym_agents.rollouts.episode_metrics import episode_metrics
from llm_gym_agents.rollouts.evaluation import Evaluation, evaluate
from llm_gym_agents.rollouts.rewards import apply_reward_fn, reward_metrics
from llm_gym_agents.rollouts.sources import EnvSource
from llm_gym_agents.rollouts.tasks import EpisodeTask, episode_seed
from llm_gym_agents.run import metrics
from llm_gym_agents.run.run_state import handed_over, restore, state_of

Callback = Callable[["PPOTrainer", dict[str, float]], None]
EVAL_IDS, GREEDY_IDS = 2**40, 2**41
"""Where the ids of episodes begin that are not trained on: ids decide what is sampled."""


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
        callbacks: Sequence[Callback] = (),
    ) -> None:
        config.check()
        # A copy, which ``fit`` completes: what is written to the folder says how the run went.
        self.config = config = copy.deepcopy(config)
        self.reward_fn, self.callbacks = reward_fn, list(callbacks)
        self.environment = training_env(config, environment, dataset, collate_fn)
        if isinstance(self.environment, str):
            config.environment.env_id = self.environment
        self.given = handed_over(
            environment, reward_fn=reward_fn, dataset=dataset, val_dataset=val_dataset
        )
        """What the program that trains has handed over: ``llm-gym resume`` cannot make it."""
        # Every global generator: an environment of somebody's may draw from any of them.
        set_seed(config.training.seed)
        lm, tokenizer = self._language_model(model, tokenizer)
        self.lm, self.tokenizer = lm, tokenizer
        self._estimator = algo.get_advantage(config.training.adv_estimator)
        critic = config.model.critic if self._estimator.needs_critic else "none"
        temperature = config.inference.temperature
        self.model = PolicyValueModel(lm, critic=critic, temperature=temperature)
        self.ppo = PPO(
            self.model, config.training, self._reference(), norm_length=most_tokens(config)
        )
        self._val = None if val_dataset is None else dataset_env(config, val_dataset, collate_fn)
        self._open_players()
        self.curriculum = Curriculum(
            config.environment.curriculum_target, config.environment.curriculum_step
        )
        self.iteration = 0
        """Iterations that are done."""
        self.metrics_history: list[dict[str, float]] = []
        self.folder = Path(config.checkpoint.output_dir)
        self.checkpoints = Checkpoints(
            self.folder / "checkpoints",
            keep_last_n=config.checkpoint.keep_last_n,
            save_best=config.checkpoint.save_best,
        )
        self._owns_folder = config.checkpoint.resume
        self.elapsed_s = 0.0
        """Seconds of training so far, over every process that had a part in it."""
        self.success: float | None = None
        """Held-out success of the present weights; None if they were not evaluated."""

    def _open_players(self) -> None:
        """Build what plays: the engine, the policy, and collectors of episodes."""
        self.engine = build_engine(self.config, self.lm, self.tokenizer)
        try:
            self.publisher = Publisher(self.engine, self.lm)
            self.publisher.publish(0)
            self.policy = build_policy(self.config, self.engine, self.tokenizer)
            self.collector = self._collector(self.environment)
            self._val_collector = None if self._val is None else self._collector(self._val)
        except BaseException:  # nobody else could end its processes
            self.engine.close()
            raise

    def _language_model(
        self, model: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase | None
    ) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if model is None:
            lm, tokenizer = build_lm(self.config, self.environment, tokenizer)
        elif tokenizer is None:
            raise ConfigError("a model that is passed in needs its tokenizer as well")
        else:
            lm = prepare_lm(self.config, model)
        check_tokenizer(lm, tokenizer)
        return lm, tokenizer

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
        per_epoch = settings.num_iters_per_epoch
        total = settings.num_epochs * per_epoch
        if self.config.checkpoint.resume and (latest := self.checkpoints.latest()):
            self.load_checkpoint(latest)
        with self._open_log() as log:
            # Only now is it sure that no other run lives in this folder.
            self.config.save(self.folder / "config.json")
            self.checkpoints.drop_after(self.iteration)
            self.metrics_history = [self._named(row, per_epoch) for row in log.rows]
            while self.iteration < total and not self._is_enough():
                row = self._iterate(total)
                row |= self._evaluate_now(total)
                self.iteration += 1
                log.log(self.iteration, row)
                self.metrics_history.append(self._named(log.rows[-1], per_epoch))
                for callback in self.callbacks:
                    callback(self, row)
                if self._is_enough() or self._is_due(per_epoch, total):
                    self._save()
        return self.metrics_history

    def _iterate(self, total: int) -> dict[str, float]:
        """Play, learn, publish; return what is to be known about it."""
        start, settings = time.perf_counter(), self.config.training
        self.publisher.catch_up()
        rollout = self.collector.collect(self._tasks())
        if not rollout.episodes:
            raise ConfigError(
                f"no episode of iteration {self.iteration} could be played: "
                f"{'; '.join(self.collector.pool.failures[-3:]) or 'no prompt fits the context'}"
            )
        greedy_E = self._greedy_scores(rollout)
        rewards = self._reward(rollout)
        played = time.perf_counter()
        self.publisher.rest()  # until the weights are published, where one GPU is shared
        kind, warmup = settings.lr_schedule, settings.warmup_iters
        try:
            learned = self.ppo.update(
                rollout.data,
                rate=learning_rate_factor(kind, self.iteration, total, warmup),
                critic_only=self.iteration < settings.critic_warmup_iters,
                greedy_scores_E=greedy_E,
            )
        except NotFiniteError as error:
            raise self._with_batch(error) from error
        published = self.publisher.publish(self.iteration + 1)
        end = time.perf_counter()
        self.elapsed_s += end - start
        row = episode_metrics(rollout) | rewards | learned | published
        if self.config.environment.curriculum:
            row["env/difficulty"] = self.curriculum.difficulty
            self.curriculum.update(row[metrics.TRAIN_SUCCESS])
        return row | {
            "time/collect_s": played - start,
            "time/update_s": end - played,
            metrics.TOKENS_PER_SECOND: rollout.data.tokens / (end - start),
            metrics.ELAPSED: self.elapsed_s,
        }

    def _tasks(self) -> list[EpisodeTask]:
        settings, environment = self.config.training, self.config.environment
        options: dict[str, Any] = {}
        if split := self._split(environment.train_split):
            options["split"] = split
        if environment.curriculum:
            options["difficulty"] = self.curriculum.difficulty
        first = self.iteration * settings.batch_size
        tasks = []
        for id in range(first, first + settings.batch_size):
            group = id // settings.group_size
            seed = episode_seed(settings.seed, group)
            tasks.append(EpisodeTask(id, seed, group, options or None))
        return tasks

    def _greedy_scores(self, rollout: Rollout) -> torch.Tensor | None:
        """Play every start once more, greedily, if the estimator compares with that."""
        if not self._estimator.needs_greedy_rollout:
            return None
        starts = {episode.seed: episode for episode in rollout.episodes}
        tasks = [
            EpisodeTask(GREEDY_IDS + at, episode.seed or 0, at, episode.options)
            for at, episode in enumerate(starts.values())
        ]
        with self.policy.greedily():
            greedy, _ = self.collector.play(tasks)
        if self.reward_fn is not None:
            self._apply_reward_fn(greedy)
        score = {episode.seed: episode.total_reward for episode in greedy}
        scores = [score[episode.seed] for episode in rollout.episodes]
        return torch.tensor(scores, device=self.model.device)

    def _reward(self, rollout: Rollout) -> dict[str, float]:
        """Let the reward function, if there is one, say what the episodes were worth."""
        if self.reward_fn is None:
            return {}
        self._apply_reward_fn(rollout.episodes)
        turns = [reward for episode in rollout.episodes for reward in episode.rewards]
        rollout.data.reward_T[rollout.data.turn_ends_T] = torch.tensor(turns)
        return reward_metrics(rollout.episodes)

    def _apply_reward_fn(self, episodes: list[Trajectory]) -> None:
        assert self.reward_fn is not None
        mode = self.config.training.reward_mode
        apply_reward_fn(self.reward_fn, episodes, self.environment, mode=mode)

    # --- evaluation ----------------------------------------------------------------------

    def evaluate(self, episodes: int | None = None, records: str | None = None) -> Evaluation:
        """Play held-out episodes, the same ones every time."""
        settings = self.config.environment
        collector = self._val_collector or self.collector
        options: dict[str, Any] = {}
        if split := self._split(settings.eval_split):
            options["split"] = split
        if settings.curriculum:
            options["difficulty"] = 1.0
        todo = [
            EpisodeTask(EVAL_IDS + at, episode_seed(-1, at), at, options or None)
            for at in range(episodes or settings.eval_episodes)
        ]
        self.publisher.catch_up()
        with self.policy.greedily() if settings.eval_greedy else nullcontext():
            result = evaluate(collector, todo, records)
        # What the engine still knows of these prompts could change the last bits of the next
        # log-probs, and a run that was killed and resumed does not know it.
        self.publisher.forget()
        return result

    def _evaluate_now(self, total: int) -> dict[str, float]:
        every, done = self.config.environment.eval_interval, self.iteration + 1
        self.success = None
        if not every or (done % every and done != total):
            return {}
        result = self.evaluate(records=str(self.folder / f"episodes/eval-{done:06d}.jsonl"))
        self.success = result.success
        return {
            metrics.EVAL_SUCCESS: result.success,
            metrics.EVAL_RETURN: result.mean_return,
            "eval/turns": result.mean_turns,
            "eval/invalid": result.invalid,
        }

    # --- checkpoints ---------------------------------------------------------------------

    def save_checkpoint(self, path: str | Path) -> Path:
        """Write everything that the run needs to go on to the folder ``path``."""
        return save_checkpoint(path, state_of(self), lm=self.lm, tokenizer=self.tokenizer)

    def load_checkpoint(self, path: str | Path) -> None:
        """Go on from the checkpoint in the folder ``path``."""
        restore(self, load_checkpoint(path))
        self._owns_folder = Path(path).resolve().is_relative_to(self.folder.resolve())

    def _save(self) -> None:
        self.checkpoints.save(state_of(self), lm=self.lm, tokenizer=self.tokenizer)

    def _is_due(self, per_epoch: int, total: int) -> bool:
        every = self.config.checkpoint.save_interval * per_epoch
        due = bool(every) and self.iteration % every == 0
        best = self.config.checkpoint.save_best and self.checkpoints.is_best(self.success)
        return due or best or self.iteration == total

    def _is_enough(self) -> bool:
        wanted = self.config.environment.stop_at_success
        return wanted is not None and self.success is not None and self.success >= wanted

    # --- the rest ------------------------------------------------------------------------

    def cleanup(self) -> None:
        """End environments and engine and free their memory. Safe to call twice."""
        with closing(self.engine):
            for collector in (self.collector, self._val_collector):
                if collector is not None:
                    collector.close()

    def _open_log(self) -> metrics.MetricsLog:
        """Return the log of this run; a folder that is another run's is refused."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = metrics.MetricsLog(
            self.folder,
            resume_after=self.iteration if self._owns_folder else None,
            wandb_project=self.config.checkpoint.wandb_project,
            config=self.config.to_dict(),
        )
        self._owns_folder = True
        return log

    def _named(self, row: dict[str, float], per_epoch: int) -> dict[str, float]:
        """Return a row of metrics with its epoch and the short names of the losses."""
        short = {"policy_loss": "loss/policy", "value_loss": "loss/value"}
        named = {ours: row[name] for ours, name in short.items() if name in row}
        return {"epoch": (int(row[metrics.ITERATION]) - 1) // per_epoch, **named, **row}

    def _reference(self) -> PolicyValueModel | None:
        settings = self.config.training
        if not (settings.use_kl_in_reward or settings.use_kl_in_loss):
            return None
        frozen = copy.deepcopy(self.lm).requires_grad_(False).eval()
        return PolicyValueModel(
            frozen, critic="none", temperature=self.config.inference.temperature
        )

    def _collector(self, env: EnvSource) -> EpisodeCollector:
        settings = self.config
        rows = min(settings.inference.num_envs, settings.training.batch_size)
        return EpisodeCollector(build_pool(settings, env, rows), self.policy)

    def _split(self, wanted: str | None) -> str | None:
        """Return the split to play; a data set of its own for validation is split already."""
        return wanted if self._val is None and self.collector.pool.has_splits else None

    def _with_batch(self, error: NotFiniteError) -> NotFiniteError:
        """Return the error with the place where the batch that caused it was saved."""
        assert error.batch is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / f"not-finite-{self.iteration:06d}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in error.batch.items()}, place)
        told = NotFiniteError(f"{error}; the batch is in {place}")
        told.batch = error.batch
        return told


def create_trainer(
    config: ConfigStore, environment: EnvSource | None = None, **kwargs: Any
) -> PPOTrainer:
    """Return the trainer that ``config`` asks for."""
    return PPOTrainer(config, environment, **kwargs)


class RayPPOTrainer(PPOTrainer):
    """``PPOTrainer`` with ``config.ray.use_ray``, which says what is missing until it is built."""

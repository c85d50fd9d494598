"""Which processes a run has: one, several that learn (``process_group``), or Ray actors that play.

Everything of ``process_group`` and ``ray`` is imported only by runs that use it.
"""

import os
from collections.abc import Callable, Sequence

from transformers import PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore, ParallelConfig
from llm_gym_agents.distributed.build import build_sampler
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.publish import Publisher, WeightPublisher
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask


def is_main(settings: ParallelConfig) -> bool:
    """Whether this process prints; known before it has joined the others."""
    return settings.mode == "none" or os.environ.get("RANK", "0") == "0"


def join_processes(config: ConfigStore) -> SingleProcess:
    """Return the processes of this run; under ``parallel.mode`` it joins the others."""
    settings = config.parallel
    if settings.mode == "none":
        return SINGLE_PROCESS
    from llm_gym_agents.distributed.process_group import join

    ranks = join(settings.mode, device=config.model.device)
    if ranks.device.type == "cuda":
        config.model.device = str(ranks.device)
    return ranks


def sync_config(config: ConfigStore) -> None:
    """Join the other processes, if any, and take over the main one's output folder.

    Processes that ``torchrun`` restarts after one was lost resume from the last checkpoint.
    """
    ranks = join_processes(config)
    config.checkpoint.output_dir = ranks.broadcast(config.checkpoint.output_dir)
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if restarted and config.parallel.mode != "none":
        config.checkpoint.resume = True


def build_players(
    config: ConfigStore,
    learner: Learner,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> tuple[Player, WeightPublisher]:
    """Return what plays, with the present weights of ``learner``, and what updates its weights."""
    ranks = learner.ranks
    sampler: Player
    publisher: WeightPublisher
    if config.ray.use_ray:
        from llm_gym_agents.distributed.ray.sampler import ray_players

        sampler, publisher = ray_players(config, learner.lm, ranks, tokenizer, env, held_out)
        sleeps = False
    else:
        own = sampler = build_sampler(config, learner.lm, tokenizer, env, held_out)
        publisher = Publisher(own.engine, learner.lm)
        sleeps = getattr(own.engine, "sleeps", False)
        if ranks.world > 1:
            from llm_gym_agents.distributed.process_group import RankSampler

            sampler = RankSampler(own, ranks)
    try:
        learner.use_cuda_graphs(engine_sleeps=sleeps)
        publisher.publish(0)
    except BaseException:
        sampler.close()
        raise
    return sampler, publisher


def play_ahead(player: Player, upcoming: Callable[[int], Sequence[EpisodeTask]]) -> None:
    """Tell a player that can play ahead of the learner which tasks an iteration will have."""
    if hasattr(player, "upcoming"):
        player.upcoming = upcoming

"""Who plays, and who keeps them on the trained weights: one process, or many actors."""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build import build_sampler
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.publish import GroupPublisher
from llm_gym_agents.distributed.samplers import Agenda, SamplerGroup
from llm_gym_agents.learn.publish import Publisher
from llm_gym_agents.rollouts.sampler import Sampler


def build_players(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> tuple[Sampler | SamplerGroup, Publisher | GroupPublisher]:
    """Return what plays as ``config`` says, with the present weights of ``lm``."""
    sampler: Sampler | SamplerGroup
    publisher: Publisher | GroupPublisher
    if config.ray.use_ray:
        served = config.inference.backend != "transformers"
        sampler = SamplerGroup(config, lm, tokenizer, env, held_out)
        publisher = GroupPublisher(sampler, lm, served=served)
    else:
        sampler = build_sampler(config, lm, tokenizer, env, held_out)
        publisher = Publisher(sampler.engine, lm)
    try:
        publisher.publish(0)
    except BaseException:
        sampler.close()
        raise
    return sampler, publisher


def play_ahead(sampler: Sampler | SamplerGroup, agenda: Agenda) -> None:
    """Tell players that play ahead what will be played."""
    if isinstance(sampler, SamplerGroup):
        sampler.agenda = agenda

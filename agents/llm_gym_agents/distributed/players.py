"""Who plays, and who keeps them on the trained weights: one process, several, or many actors."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build import build_sampler
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.crew import Crew
from llm_gym_agents.distributed.lead import Lead
from llm_gym_agents.distributed.led_players import LedPublisher, LedSampler
from llm_gym_agents.distributed.publish import GroupPublisher
from llm_gym_agents.distributed.ranks import Ranks
from llm_gym_agents.distributed.samplers import Agenda, SamplerGroup
from llm_gym_agents.distributed.sampling import RankSampler
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.publish import Publisher
from llm_gym_agents.model.weights import is_sharded
from llm_gym_agents.rollouts.sampler import Player, Sampler


def build_players(
    config: ConfigStore,
    learner: Learner,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None = None,
) -> tuple[Player, Publisher | GroupPublisher | LedPublisher]:
    """Return what plays as ``config`` says, with the present weights of ``learner``."""
    lm, ranks = learner.lm, learner.ranks
    sampler: Sampler | SamplerGroup | LedSampler
    publisher: Publisher | GroupPublisher | LedPublisher
    if not config.ray.use_ray:
        sampler = build_sampler(config, lm, tokenizer, env, held_out)
        publisher = Publisher(sampler.engine, lm)
    else:
        lead = Lead(ranks, lm)
        # A model that is spread over processes is read through its learner alone.
        probed = config.inference.backend != "transformers" and not is_sharded(lm)

        def start() -> SamplerGroup:
            crew = Crew(config, lm, tokenizer, env, held_out, lead)
            return SamplerGroup(crew, tokenizer, lead)

        if ranks.world == 1:
            sampler = start()
            publisher = GroupPublisher(sampler, lm, probed=probed)
        else:
            led = sampler = LedSampler(lead, config, tokenizer, start)
            publisher = LedPublisher(lead, lambda: GroupPublisher(led.driven, lm, probed=probed))
    try:
        sleeps = isinstance(sampler, Sampler) and getattr(sampler.engine, "sleeps", False)
        learner.use_cuda_graphs(config.model.cuda_graphs, engine_sleeps=sleeps)
        publisher.publish(0)
    except BaseException:
        sampler.close()
        raise
    if isinstance(sampler, Sampler) and isinstance(ranks, Ranks):
        return RankSampler(sampler, ranks), publisher
    return sampler, publisher


def play_ahead(player: Player, agenda: Agenda) -> None:
    """Tell players that play ahead what will be played."""
    group = player.group if isinstance(player, LedSampler) else player
    if isinstance(group, SamplerGroup):
        group.agenda = agenda

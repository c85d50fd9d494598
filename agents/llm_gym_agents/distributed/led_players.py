"""Players on actors for a learner over processes: one process drives, all have what was played.

The leading process has the ``SamplerGroup``. Episodes, failures and metrics are shared with the
others as they come, so that every process goes on from the same batch, and whether weights reached
all actors is known in all of them (``lead``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

from transformers import PreTrainedTokenizerBase

from llm_gym_agents.build import build_policy
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.engine import MemberEngine
from llm_gym_agents.distributed.host import Facts
from llm_gym_agents.distributed.in_process import InProcess
from llm_gym_agents.distributed.lead import Lead
from llm_gym_agents.distributed.members import Member
from llm_gym_agents.distributed.publish import AwakePublisher, GroupPublisher
from llm_gym_agents.distributed.samplers import SamplerGroup
from llm_gym_agents.engines.base import Engine
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout


class LedSampler:
    """A ``SamplerGroup``, as each of the processes that learn from it sees it.

    Args:
        lead: Who drives it.
        config: Of the run.
        tokenizer: Of the model.
        start: Makes the group; called in the leading process.
    """

    def __init__(
        self,
        lead: Lead,
        config: ConfigStore,
        tokenizer: PreTrainedTokenizerBase,
        start: Callable[[], SamplerGroup],
    ) -> None:
        self._lead, self._config, self._tokenizer = lead, config, tokenizer
        self.group: SamplerGroup | None = None
        """In the leading process."""

        def begin() -> Facts:
            self.group = start()
            return self.group.crew.facts

        self._facts = lead.do(begin)

    @property
    def env_id(self) -> str | None:
        """Of the environments, if they are registered."""
        return self._facts.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environments know training instances from held-out ones."""
        return self._facts.has_splits

    @cached_property
    def policy(self) -> LLMPolicy:
        """The policy that every actor plays, for those who look at how it reads."""
        nobody = MemberEngine(InProcess(), Member(0, facts=self._facts))
        return build_policy(self._config, cast(Engine, nobody), self._tokenizer)

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, **how: bool
    ) -> Rollout:
        """Play ``tasks`` to their ends; see ``Sampler.play``."""
        return self._lead.do(lambda: self.driven.play(tasks, version, **how))

    @property
    def driven(self) -> SamplerGroup:
        """The group; only the leading process has it."""
        assert self.group is not None
        return self.group

    def close(self) -> None:
        """End every actor. Safe to call twice."""
        if self.group is not None:
            self.group.close()


class LedPublisher(AwakePublisher):
    """``GroupPublisher``, as each of the processes sees it.

    Args:
        lead: Who publishes.
        start: Makes the publisher; called in the leading process.
    """

    def __init__(self, lead: Lead, start: Callable[[], GroupPublisher]) -> None:
        self._lead = lead
        self._own = start() if lead.leads else None
        self._version = 0

    @property
    def version(self) -> int:
        """Of the weights that the actors have."""
        return self._version

    @property
    def _driven(self) -> GroupPublisher:
        assert self._own is not None
        return self._own

    def publish(self, version: int) -> dict[str, float]:
        """Give every actor the present weights; see ``GroupPublisher.publish``."""
        found = self._lead.do(lambda: self._driven.publish(version))
        self._version, self._outdated = version, False
        return found

    def empty_cache(self) -> None:
        """Empty what engines have cached."""
        self._lead.do(lambda: self._driven.empty_cache())

"""Who is where, and does it fit? The roles of a run on its GPUs, worked out before it starts.

The roles are those of the larger trainers: actor and rollout (who learns, and who plays with its
weights), critic, reference, reward. Actor, critic and reference are always together, because one
pass over a batch serves all three: in every process of the learner, or spread over all of them.
The rollout is beside them on the same cards, asleep while they learn, or apart on cards of its own
(``ray.use_ray``). A reward function runs on the CPU of whichever process played the episode.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.build import is_embedded, run_plan
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.memory_plan import GIB, Plan, Shape
from llm_gym_agents.lm.load import load_config


@dataclass(frozen=True, kw_only=True)
class Role:
    """One part of a run."""

    name: str
    where: str
    bytes: int
    """On each of its cards."""


@dataclass(frozen=True, kw_only=True)
class ResourcePlan:
    """The roles of a run, and what they take of a card."""

    roles: tuple[Role, ...]
    learner: Plan
    """Of a card of the learner."""
    player: Plan | None
    """Of a card of a player that is apart; None where players are beside the learner."""

    def lines(self) -> list[str]:
        """Return the plan as a table."""
        width = max(len(role.name) for role in self.roles)
        place = max(len(role.where) for role in self.roles)
        return ["roles (GiB of each card):"] + [
            f"  {role.name:<{width}}  {role.where:<{place}}  {role.bytes / GIB:6.1f}"
            for role in self.roles
        ]

    def check(self, total: int) -> None:
        """Raise one sentence with the numbers unless every role fits into cards of ``total``."""
        for who, made in (("the learner", self.learner), ("a player", self.player)):
            if made is None:
                continue
            try:
                made.check(total)
            except ConfigError as error:
                raise ConfigError(f"{who} does not fit: {error}") from error


def resource_plan(
    config: ConfigStore, shape: Shape, one_card: Plan, *, world: int = 1
) -> ResourcePlan:
    """Return the plan of a run.

    Args:
        config: Of the run.
        shape: Of its model.
        one_card: What it would take of a single card (``build.run_plan``).
        world: Processes of the learner, a card each.
    """
    mode, apart = config.parallel.mode, config.ray.use_ray
    held = _with_critic(config, one_card)
    if mode == "fsdp":
        held = _spread(held, shape, world)
    player = None
    if apart:
        player = Plan(
            weights=0,
            gradients=0,
            optimizer=0,
            reference=0,
            activations=0,
            engine=one_card.engine,
            engine_sleeps=one_card.engine_sleeps,
        )
        held = replace(held, engine=0)
    cards = f"{world} cards" if world > 1 else "one card"
    learners = {"none": "one card", "ddp": f"all of it on each of {cards}"}
    where = learners.get(mode, f"spread over {cards}")
    learning = held.weights + held.gradients + held.optimizer + held.activations
    roles = [Role(name="actor", where=where, bytes=learning)]
    critic = config.model.critic
    if critic == "separate":
        roles.append(Role(name="critic", where="with the actor, a trunk of its own", bytes=0))
    if held.reference:
        roles.append(Role(name="reference", where="with the actor", bytes=held.reference))
    playing = f"{config.ray.num_actors} actors, apart" if apart else "with the actor, in turn"
    engine = one_card.engine
    roles.append(Role(name="rollout", where=playing, bytes=engine))
    roles.append(Role(name="reward", where="the CPU of whoever played", bytes=0))
    return ResourcePlan(roles=tuple(roles), learner=held, player=player)


def _with_critic(config: ConfigStore, made: Plan) -> Plan:
    """Return the plan with a critic that has a trunk of its own: as much again of all it learns."""
    if config.model.critic != "separate":
        return made
    return replace(
        made,
        weights=2 * made.weights,
        gradients=2 * made.gradients,
        optimizer=2 * made.optimizer,
        activations=2 * made.activations,
    )


def _spread(made: Plan, shape: Shape, world: int) -> Plan:
    """Return the plan of one of ``world`` cards over which weights are spread.

    Beside its share a card holds what it has gathered: two layers, of which the second is on its
    way, and embeddings and head, with a gradient of each.
    """
    layer = shape.hidden * (2 * shape.hidden + 2 * shape.kv_width + 3 * shape.mlp)
    gathered = 2 * 2 * 2 * layer + 2 * 4 * 2 * shape.vocabulary * shape.hidden

    def part(size: int) -> int:
        return -(-size // world)

    return replace(
        made,
        weights=part(made.weights),
        gradients=part(made.gradients),
        optimizer=part(made.optimizer),
        reference=part(made.reference),
        activations=made.activations + gathered,
    )


def planned(config: ConfigStore) -> ResourcePlan | None:
    """Return the plan of a run over several processes; refuse one that cannot fit their cards.

    None for an ordinary run, and for the embedded model, which fits anything.
    """
    spread = config.parallel.mode != "none" or config.ray.use_ray
    if not spread or is_embedded(config):
        return None
    path = config.model.model_name
    trust = config.model.trust_remote_code
    own = load_config(path, trust_remote_code=trust)
    world = int(os.environ.get("WORLD_SIZE", "1")) if config.parallel.mode != "none" else 1
    shape = Shape.of(own, trust_remote_code=trust)
    made = resource_plan(config, shape, run_plan(config, own), world=world)
    if torch.cuda.is_available() and config.model.device != "cpu":
        made.check(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return made

"""How a run is spread over processes and machines."""

from __future__ import annotations

from dataclasses import dataclass

from llm_gym_agents.config.fields import Count, NotNegative, Positive, Text, Whole
from llm_gym_agents.config.section import Section


@dataclass(kw_only=True)
class RayConfig(Section, section="ray"):
    """How a run is spread over processes and machines."""

    use_ray: bool = False
    """Play on actors of their own."""
    num_actors: Count = 1
    """Actors that play, each with an engine and environments."""
    address: Text | None = None
    """Of a Ray cluster that is there: auto, or HOST:PORT; None starts one on this machine."""
    num_cpus_per_actor: NotNegative = 1.0
    """CPU cores of each actor."""
    num_gpus_per_actor: NotNegative | None = None
    """GPUs of each actor; a share such as 0.3 puts three on one. None is 1 where there are any."""
    staleness: Whole = 0
    """Iterations that playing may run ahead of learning; 0 waits for fresh weights."""
    timeout: Positive | None = 1800.0
    """Seconds that an actor may take for its episodes before it is replaced; None for any."""

"""How a run is spread over processes and machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_gym_agents.config.fields import Count, NotNegative, Positive, Text, Whole
from llm_gym_agents.config.section import Section

Transfer = Literal["auto", "store", "group"]


@dataclass(kw_only=True)
class RayConfig(Section, section="ray"):
    """How a run is spread over processes and machines."""

    use_ray: bool = False
    """Play on actors of their own."""
    num_actors: Count = 1
    """Actors that play, each with an engine and environments."""
    address: Text | None = None
    """Of a Ray cluster that is there: auto, or HOST:PORT; None starts one on this machine."""
    in_process: bool = False
    """Keep the actors in this process, without Ray, for breakpoints; they play one by one."""
    num_cpus_per_actor: NotNegative = 1.0
    """CPU cores of each actor."""
    num_gpus_per_actor: NotNegative | None = None
    """GPUs of each actor; a share such as 0.3 puts three on one. None is 1 where there are any."""
    memory_gb_per_actor: Positive | None = None
    """Memory that is reserved for each actor; None reserves none."""
    staleness: Whole = 0
    """Iterations that playing may run ahead of learning; 0 waits for fresh weights."""
    timeout: Positive | None = 1800.0
    """Seconds that an actor may take for its episodes before it is replaced; None for any."""
    max_restarts: Whole = 3
    """Replacements of an actor in a row, without an episode from it, before the run ends."""
    bucket_mb: Count = 256
    """Megabytes of weights that travel at a time."""
    transfer: Transfer = "auto"
    """How weights reach the actors: store is Ray's object store, group a process group of learner
    and actors (NCCL between GPUs, gloo between CPUs); auto takes CUDA IPC on the learner's card, a
    group for other cards, and the store on CPUs."""
    env_actors: Whole = 0
    """Actors that hold the environments of all players, a process for each; 0 keeps them with the
    players."""

"""``RayCluster``: start or find a cluster, start actors on it, end them.

With ``calls`` all that depends on Ray's version or on its internals.

TorchRL's ``RayCollector`` is not used to play. It collects frames, not named episodes: nobody can
say which tasks an actor plays, a batch is whatever came first, weights have no version that a
trajectory would carry, a dead collector takes its trajectories along, and its environments and
policy are built by factories of TorchRL's own instead of being the ``Sampler`` of this process.
Inside each actor TorchRL's ``Collector`` collects, as it does in one process.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym_agents.config.schema import RayConfig
from llm_gym_agents.distributed.calls import (
    PLAY,
    WEIGHTS,
    Calls,
    as_cluster_error,
    import_ray,
    lost_cluster,
)
from llm_gym_agents.distributed.last_words import last_words
from llm_gym_agents.run.process import env_vars

BUCKET_BYTES = 256 * 2**20
"""Bytes of weights that travel at a time."""
OBJECT_STORE_BUCKETS = 4
"""Buckets that the object store of a cluster on this machine has room for, and as much for
episodes."""
WORDS_S = 15.0
"""Seconds that another machine gets to bring the log of an actor that died there."""
_TORCHRUN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"),
)
"""What a process of a spread learner is told about itself, and actors must not take for theirs."""


class RayCluster(Calls):
    """A Ray cluster: one that is there, or one on this machine that ends with this object.

    Args:
        settings: Where it is, and what each actor takes.
        cards: Which GPUs of this machine its actors may have, if the cluster is started here; None
            for all.
    """

    def __init__(self, settings: RayConfig, cards: Sequence[str] | None = None) -> None:
        super().__init__()
        self._settings, self._cards = settings, cards
        self._mine = False
        if not self._ray.is_initialized():
            self._connect()
        if settings.num_gpus_per_actor is None:
            any_gpu = self._ray.cluster_resources().get("GPU", 0) > 0
            settings.num_gpus_per_actor = 1.0 if any_gpu else 0.0
        try:
            self._check_room()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        own: dict[str, Any] = {}
        if self._settings.address is None:
            store = 2 * OBJECT_STORE_BUCKETS * BUCKET_BYTES
            need = self._settings.num_actors * self._settings.num_cpus_per_actor
            own = {
                "include_dashboard": False,
                "object_store_memory": min(store, _memory() // 4),
                # What was asked for is given: cores that are shared are slower, and still enough.
                "num_cpus": max(os.cpu_count() or 1, int(need + 0.999)),
            }
        hidden: dict[str, str | None] = dict.fromkeys(_TORCHRUN)
        if own and self._cards is not None:
            own["num_gpus"] = len(self._cards)
            hidden["CUDA_VISIBLE_DEVICES"] = ",".join(self._cards)
        # What a cluster on this machine is started with, its actors have too.
        with _quietly(), env_vars(hidden), as_cluster_error("cannot be reached"):
            self._ray.init(
                address=self._settings.address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
        self._mine = True
        with suppress(AttributeError, KeyError):
            node = self._ray._private.worker.global_worker.node
            [raylet] = [each.process for each in node.all_processes["raylet"]]
            threading.Thread(target=self._mourn, args=(raylet,), daemon=True).start()

    def _mourn(self, raylet: Any) -> None:
        """Say what to do when the cluster of this machine dies: Ray then ends this process."""
        raylet.wait()
        if self._mine:
            sentence = str(lost_cluster("is gone", RuntimeError("its raylet ended")))
            os.write(sys.stderr.fileno(), f"llm-gym: {sentence}\n".encode())

    def _check_room(self) -> None:
        """Refuse what the cluster could never give: Ray would wait for it for ever."""
        have = self._ray.cluster_resources()
        for what, each in self._takes().items():
            kind = {"num_cpus": "CPU", "num_gpus": "GPU"}[what]
            need = each * self._settings.num_actors
            if need > have.get(kind, 0.0) + 1e-6:
                raise ConfigError(
                    f"{self._settings.num_actors} actors with {each:g} {kind} each need {need:g}, "
                    f"and the cluster has {have.get(kind, 0.0):g}; lower ray.num_actors or what "
                    "each takes, or add machines"
                )

    def _takes(self) -> dict[str, float]:
        settings = self._settings
        taken: dict[str, float] = {
            "num_cpus": settings.num_cpus_per_actor,
            "num_gpus": settings.num_gpus_per_actor or 0.0,
        }
        return taken

    # --- actors --------------------------------------------------------------------------

    def start(self, make: Callable[..., Any], argument: Any, name: str) -> Any:
        """Return an actor that holds ``make(argument)``; it is being started."""
        groups = {PLAY: 1, WEIGHTS: 1}
        remote = self._ray.remote(max_restarts=0, concurrency_groups=groups, **self._takes())(make)
        with as_cluster_error("is gone"):
            return remote.remote(argument)

    def kill(self, actor: Any) -> None:
        """End an actor without asking it."""
        with suppress(self._ray.exceptions.RayError, RuntimeError):
            self._ray.kill(actor)

    def last_words(self, actor: Any, pid: int) -> str:
        """Return the last lines that an actor wrote, if its machine can still be asked."""
        lost = (self._ray.exceptions.RayError, AttributeError, KeyError, OSError)
        with suppress(*lost):
            home = self._ray._private.state.actors(actor._actor_id.hex())["Address"]["NodeID"]
            if home == self._ray.get_runtime_context().get_node_id():
                return _words_here(pid)
            there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                home, soft=False
            )
            task = self._ray.remote(num_cpus=0, scheduling_strategy=there)(_words_here)
            words: str = self._ray.get(task.remote(pid), timeout=WORDS_S)
            return words
        return ""

    def address(self) -> str:
        """Return where actors can reach this process."""
        return str(self._ray.util.get_node_ip_address())

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here. Safe to call twice."""
        if self._mine:
            self._mine = False
            with _quietly():
                self._ray.shutdown()


def _words_here(pid: int) -> str:
    logs = import_ray()._private.worker.global_worker.node.get_logs_dir_path()
    return last_words(logs, pid)


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Ray's banner to itself."""
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(usual)

"""The one door to Ray: start or find a cluster, start actors, call them, end them.

Everything that depends on Ray's version or on its internals is in this file. Failures come out in
two kinds: ``ActorLostError``, after which another actor can be started, and ``ClusterLostError``,
after which the run can only go on from its checkpoint.

TorchRL's ``RayCollector`` is not used to play. It collects frames, not named episodes: nobody can
say which tasks an actor plays, a batch is whatever came first, weights have no version that a
trajectory would carry, a dead collector takes its trajectories along, and its environments and
policy are built by factories of TorchRL's own instead of being the ``Sampler`` of this process.
Inside each actor TorchRL's ``Collector`` collects, as it does in one process.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym_agents.config.ray import RayConfig
from llm_gym_agents.distributed.last_words import last_words
from llm_gym_agents.engines.base import EngineError, MissingExtraError
from llm_gym_agents.run.environ import environment

OBJECT_STORE_BUCKETS = 4
"""Buckets that the object store of a cluster on this machine has room for, and as much for
episodes."""
WORDS_S = 15.0
"""Seconds that another machine gets to bring the log of an actor that died there."""
PLAY, WEIGHTS = "play", "weights"
"""Threads of an actor: one plays, the other does the rest."""
_QUIET = {
    "RAY_DEDUP_LOGS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # How long a driver waits for a head that does not answer before it ends by itself.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
}
_TORCHRUN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"),
)
"""What a process of a spread learner is told about itself, and actors must not take for theirs."""


class ActorLostError(EngineError):
    """An actor is gone: it was killed, ran out of memory, or its machine is gone."""


class ClusterLostError(EngineError):
    """The cluster is gone."""


class Calls:
    """Calls to actors, from any process of a cluster."""

    def __init__(self) -> None:
        self._ray = _import()

    def put(self, value: Any) -> Any:
        """Put ``value`` where every actor can read it; it is dropped with what is returned."""
        with _as_cluster_error("is gone"):
            return self._ray.put(value)

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Have an actor do something; the result is asked for with ``result``."""
        group = PLAY if method == "play" else WEIGHTS
        with _as_cluster_error("is gone"):
            return getattr(actor, method).options(concurrency_group=group).remote(*args)

    def ready(self, calls: Sequence[Any], timeout: float | None) -> list[Any]:
        """Return the calls that are done, waiting so many seconds for one of them."""
        with _as_cluster_error("is gone"):
            done, _ = self._ray.wait(list(calls), num_returns=1, timeout=timeout)
            if done:
                done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return list(done)

    def result(self, call: Any) -> Any:
        """Return what a call returned, or raise what it raised; a lost actor is told by name."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:
            raise (error.cause or error) from None
        except (
            errors.RayActorError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.WorkerCrashedError,
        ) as error:
            raise ActorLostError(_first_line(error)) from error
        except errors.RayError as error:
            raise _lost("is gone", error) from error


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
            store = 2 * OBJECT_STORE_BUCKETS * self._settings.bucket_mb * 2**20
            need = self._settings.num_actors * self._settings.num_cpus_per_actor
            need += self._settings.env_actors
            own = {
                "include_dashboard": False,
                "object_store_memory": min(store, _memory() // 4),
                # What was asked for is given: cores that are shared are slower, and still enough.
                "num_cpus": max(os.cpu_count() or 1, int(need + 0.999)),
            }
        hidden: dict[str, str | None] = dict.fromkeys(_TORCHRUN)
        if own and self._cards is not None:
            own["num_gpus"], hidden["CUDA_VISIBLE_DEVICES"] = (
                len(self._cards),
                ",".join(self._cards),
            )
        # What a cluster on this machine is started with, its actors have too.
        with _quietly(), environment(hidden), _as_cluster_error("cannot be reached"):
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
            sentence = str(_lost("is gone", RuntimeError("its raylet ended")))
            os.write(sys.stderr.fileno(), f"llm-gym: {sentence}\n".encode())

    def _check_room(self) -> None:
        """Refuse what the cluster could never give: Ray would wait for it for ever."""
        have = self._ray.cluster_resources()
        for what, each in self._takes().items():
            kind = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}[what]
            need = each * self._settings.num_actors
            need += self._settings.env_actors if kind == "CPU" else 0
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
        if settings.memory_gb_per_actor is not None:
            taken["memory"] = settings.memory_gb_per_actor * 2**30
        return taken

    # --- actors --------------------------------------------------------------------------

    def start(self, make: Callable[..., Any], argument: Any, name: str) -> Any:
        """Return an actor that holds ``make(argument)``; it is being started."""
        groups = {PLAY: 1, WEIGHTS: 1}
        remote = self._ray.remote(max_restarts=0, concurrency_groups=groups, **self._takes())(make)
        with _as_cluster_error("is gone"):
            return remote.remote(argument)

    def start_hosts(self, make: Callable[..., Any]) -> list[Any]:
        """Return the actors that hold environments; Ray starts them again if they are lost."""
        groups = {PLAY: 1, WEIGHTS: 2 * self._settings.num_actors}
        remote = self._ray.remote(max_restarts=-1, concurrency_groups=groups, num_cpus=1)(make)
        with _as_cluster_error("is gone"):
            return [remote.remote() for _ in range(self._settings.env_actors)]

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


def _import() -> Any:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # 2.60 asks for a token otherwise
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            'ray.use_ray needs ray. Install it with: pip install "llm-gym[ray]", or set '
            "ray.in_process"
        ) from error
    import ray.util.scheduling_strategies

    with suppress(AttributeError):  # who was lost, and what became of its episodes, we tell
        ray._private.ray_logging.stdout_deduplicator.skip_re = re.compile("A worker died or was")
    return ray


def _words_here(pid: int) -> str:
    logs = _import()._private.worker.global_worker.node.get_logs_dir_path()
    return last_words(logs, pid)


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _first_line(error: BaseException) -> str:
    """Return the first line of what Ray says, without colours, and what was raised behind it."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" in lines[0]:  # the module of an actor could not be imported
        return f"The actor could not be made: {lines[-1]}"
    return lines[0]


def _lost(how: str, error: BaseException) -> ClusterLostError:
    return ClusterLostError(
        f"the Ray cluster {how} ({_first_line(error)}); what was learned is in the last "
        "checkpoint: start a cluster and go on with checkpoint.resume or llm-gym resume"
    )


@contextmanager
def _as_cluster_error(how: str) -> Iterator[None]:
    ray = _import()
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise _lost(how, error) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Ray's banner to itself."""
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(usual)

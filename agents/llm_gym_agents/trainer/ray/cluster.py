"""``RayCluster``, the only code that calls Ray: it finds or starts a cluster and its actors.

Everything that depends on Ray's version or internals is in this file. Failures become one of two
exceptions: ``ActorLostError``, after which another actor can be started, and ``ClusterLostError``,
after which the run can only resume from its checkpoint.

TorchRL's ``RayCollector`` is not used: it collects frames, not named episodes. It cannot say which
tasks an actor plays, its weights have no version, and a dead collector loses its trajectories.
Inside each actor TorchRL's ``Collector`` collects, as it does in one process.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from llm_gym.core.errors import ConfigError, require_package
from llm_gym_agents.config import RayConfig
from llm_gym_agents.engines.base import EngineError, restored_environ

PLAY, WEIGHTS = "play", "weights"
"""The two threads of an actor: one plays, the other does everything else."""
OBJECT_STORE_BYTES = 2 << 30
"""Object store of a local cluster: a few buckets of weights, and as much for episodes."""
LOG_LINES = 8
LOG_S = 60.0
"""Seconds to wait for the log of an actor that died on another machine."""
_RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # 2.60 asks for a token otherwise
    "RAY_DEDUP_LOGS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Seconds that a driver waits for a head that does not answer before it ends by itself.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
}
_TORCHRUN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"),
)
"""Variables of a process of the learner, which its actors must not inherit."""


class ActorLostError(EngineError):
    """An actor was killed, ran out of memory, or lost its machine."""


class ClusterLostError(EngineError):
    """The cluster is gone."""


class RayCluster:
    """A Ray cluster: a running one, or one on this machine that ends with this object.

    Args:
        settings: Address of the cluster, and the resources of each actor.
        gpus: GPUs of this machine that actors may have, if the cluster is started here; None for
            all.
    """

    def __init__(self, settings: RayConfig, gpus: Sequence[str] | None = None) -> None:
        self._ray = import_ray()
        self._settings, self._gpus = settings, gpus
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
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if self._settings.address is None:
            own = {
                "include_dashboard": False,
                "object_store_memory": min(OBJECT_STORE_BYTES, memory // 4),
                # Actors may share cores: they are slower then, and still work.
                "num_cpus": max(os.cpu_count() or 1, self._settings.num_actors),
            }
        # Actors inherit the environment in which a cluster on this machine is started.
        with _no_banner(), restored_environ(), _as_cluster_error("cannot be reached"):
            for name in _TORCHRUN:
                os.environ.pop(name, None)
            if own and self._gpus is not None:
                own["num_gpus"] = len(self._gpus)
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(self._gpus)
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
            threading.Thread(target=self._report_death, args=(raylet,), daemon=True).start()

    def _report_death(self, raylet: Any) -> None:
        """Print what to do when the local cluster dies, because Ray then ends this process."""
        raylet.wait()
        if self._mine:
            sentence = str(_lost_cluster("is gone", RuntimeError("its raylet ended")))
            os.write(sys.stderr.fileno(), f"llm-gym: {sentence}\n".encode())

    def _check_room(self) -> None:
        """Refuse more resources than the cluster has: Ray would wait for them for ever."""
        have = self._ray.cluster_resources()
        actors = self._settings.num_actors
        for kind, each in zip(("CPU", "GPU"), self._resources().values(), strict=True):
            if each * actors > have.get(kind, 0.0) + 1e-6:
                raise ConfigError(
                    f"{actors} actors with {each:g} {kind} each need {each * actors:g}, and the "
                    f"cluster has {have.get(kind, 0.0):g}; lower ray.num_actors or what each "
                    "takes, or add machines"
                )

    def _resources(self) -> dict[str, float]:
        return {"num_cpus": 1.0, "num_gpus": self._settings.num_gpus_per_actor or 0.0}

    # --- actors --------------------------------------------------------------------------

    def start(self, make: Callable[..., Any], argument: Any) -> Any:
        """Start an actor that holds ``make(argument)``; return before it is ready."""
        groups = {PLAY: 1, WEIGHTS: 1}
        resources = self._resources()
        remote = self._ray.remote(max_restarts=0, concurrency_groups=groups, **resources)(make)
        with _as_cluster_error("is gone"):
            return remote.remote(argument)

    def put(self, value: Any) -> Any:
        """Put ``value`` into the object store; it is freed with the returned reference."""
        with _as_cluster_error("is gone"):
            return self._ray.put(value)

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Call a method of an actor; ``result`` returns its answer."""
        group = PLAY if method == "play" else WEIGHTS
        with _as_cluster_error("is gone"):
            return getattr(actor, method).options(concurrency_group=group).remote(*args)

    def ready(self, calls: Sequence[Any], timeout: float | None) -> list[Any]:
        """Return the calls that are done, after waiting up to ``timeout`` s for one of them."""
        with _as_cluster_error("is gone"):
            done, _ = self._ray.wait(list(calls), num_returns=1, timeout=timeout)
            if done:
                done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return list(done)

    def result(self, call: Any) -> Any:
        """Return what a call returned, or raise what it raised."""
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
            raise _lost_cluster("is gone", error) from error

    def kill(self, actor: Any) -> None:
        with suppress(self._ray.exceptions.RayError, RuntimeError):
            self._ray.kill(actor)

    def log_tail(self, actor: Any, pid: int) -> str:
        """Return the last lines that an actor wrote, if its machine still answers."""
        lost = (self._ray.exceptions.RayError, AttributeError, KeyError, OSError)
        with suppress(*lost):
            home = self._ray._private.state.actors(actor._actor_id.hex())["Address"]["NodeID"]
            there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                home, soft=False
            )
            task = self._ray.remote(num_cpus=0, scheduling_strategy=there)(_log_tail)
            lines: str = self._ray.get(task.remote(pid), timeout=LOG_S)
            return lines
        return ""

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here. Safe to call twice."""
        if self._mine:
            self._mine = False
            with _no_banner():
                self._ray.shutdown()


def import_ray() -> Any:
    """Return the ``ray`` package, without messages that this file reports itself."""
    require_package("ray", "ray.use_ray")
    for name, value in _RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray
    import ray.util.scheduling_strategies

    with suppress(AttributeError):
        ray._private.ray_logging.stdout_deduplicator.skip_re = re.compile("A worker died or was")
    return ray


def _log_tail(pid: int) -> str:
    """Return the last lines of a worker of this machine; nothing if it wrote none."""
    logs = import_ray()._private.worker.global_worker.node.get_logs_dir_path()
    lines: list[str] = []
    for path in sorted(Path(logs).glob(f"worker-*-{pid}.*"), reverse=True):
        with path.open(encoding="utf-8", errors="replace") as file:
            # Lines that begin with a colon are Ray's own.
            lines += [line for line in deque(file, LOG_LINES) if not line.startswith(":")]
    return "".join(lines[-LOG_LINES:]).strip()


def _first_line(error: BaseException) -> str:
    """Return the first line of Ray's message without colours, or the cause of a failed start."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" in lines[0]:  # the module of an actor could not be imported
        return f"The actor could not be made: {lines[-1]}"
    return lines[0]


def _lost_cluster(how: str, error: BaseException) -> ClusterLostError:
    return ClusterLostError(
        f"the Ray cluster {how} ({_first_line(error)}); what was learned is in the last "
        "checkpoint: start a cluster and go on with checkpoint.resume or llm-gym resume"
    )


@contextmanager
def _as_cluster_error(how: str) -> Iterator[None]:
    ray = import_ray()
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise _lost_cluster(how, error) from error


@contextmanager
def _no_banner() -> Iterator[None]:
    usual = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(usual)

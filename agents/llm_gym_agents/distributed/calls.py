"""The one door to Ray: calls to actors, and what is said when they cannot be made.

Failures come out in two kinds: ``ActorLostError``, after which another actor can be started, and
``ClusterLostError``, after which the run can only go on from its checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from llm_gym.errors import MissingExtraError, install_command
from llm_gym_agents.engines.base import EngineError

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


class ActorLostError(EngineError):
    """An actor is gone: it was killed, ran out of memory, or its machine is gone."""


class ClusterLostError(EngineError):
    """The cluster is gone."""


class Calls:
    """Calls to actors, from any process of a cluster."""

    def __init__(self) -> None:
        self._ray = import_ray()

    def put(self, value: Any) -> Any:
        """Put ``value`` where every actor can read it; it is dropped with what is returned."""
        with as_cluster_error("is gone"):
            return self._ray.put(value)

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Have an actor do something; the result is asked for with ``result``."""
        group = PLAY if method == "play" else WEIGHTS
        with as_cluster_error("is gone"):
            return getattr(actor, method).options(concurrency_group=group).remote(*args)

    def ready(self, calls: Sequence[Any], timeout: float | None) -> list[Any]:
        """Return the calls that are done, waiting so many seconds for one of them."""
        with as_cluster_error("is gone"):
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
            raise lost_cluster("is gone", error) from error


def import_ray() -> Any:
    """Return Ray, told to keep to itself what is ours to tell."""
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # 2.60 asks for a token otherwise
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            f"ray.use_ray needs ray. Install it with: {install_command('ray')}"
        ) from error
    import ray.util.scheduling_strategies

    with suppress(AttributeError):  # who was lost, and what became of its episodes, we tell
        ray._private.ray_logging.stdout_deduplicator.skip_re = re.compile("A worker died or was")
    return ray


def _first_line(error: BaseException) -> str:
    """Return the first line of what Ray says, without colours, and what was raised behind it."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" in lines[0]:  # the module of an actor could not be imported
        return f"The actor could not be made: {lines[-1]}"
    return lines[0]


def lost_cluster(how: str, error: BaseException) -> ClusterLostError:
    """Return what is said when there is no cluster, or no more."""
    return ClusterLostError(
        f"the Ray cluster {how} ({_first_line(error)}); what was learned is in the last "
        "checkpoint: start a cluster and go on with checkpoint.resume or llm-gym resume"
    )


@contextmanager
def as_cluster_error(how: str) -> Iterator[None]:
    """Within this block what Ray raises is a ``ClusterLostError``."""
    ray = import_ray()
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise lost_cluster(how, error) from error

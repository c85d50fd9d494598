"""``InProcessCluster``: the calls of ``RayCluster``, made at once in this process."""

from unittest import mock

from llm_gym_agents.distributed.ray import sampler


class Done:
    """A call that was made: what it returned, or raised."""

    def __init__(self, call, args):
        self.value = self.error = None
        try:
            self.value = call(*args)
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self.error = error


class InProcessCluster:
    """A cluster of one process; ``settings`` are those of ``RayCluster``, and have no effect."""

    def __init__(self, *settings):
        pass

    def start(self, make, argument):
        return make(argument)

    def put(self, value):
        return value

    def call(self, actor, method, *args):
        return Done(getattr(actor, method), args)

    def ready(self, calls, timeout):
        return list(calls)

    def result(self, call):
        if call.error is not None:
            raise call.error
        return call.value

    def kill(self, actor):
        actor.close()

    def log_tail(self, actor, pid):
        return ""

    def close(self):
        pass


def without_ray():
    """Within this block players on actors are built in this process."""
    return mock.patch.object(sampler, "RayCluster", InProcessCluster)

"""An engine with scripted replies, finished in a scripted order.

It samples nothing, so a test can decide which reply is ready when, and read in ``log`` the order of
calls.
"""

from collections.abc import Callable, Iterable

from llm_gym_agents.engines.base import Completion, Engine, FinishReason, Request


class ScriptedEngine(Engine):
    """Finishes, at each ``poll``, the requests that ``ready`` names among those that run.

    Args:
        ready: Given the keys that run, oldest first, returns those to finish now.
        say: Given a request, returns the ids of its reply.
    """

    context_length = 10_000
    end_ids = frozenset()

    def __init__(
        self,
        ready: Callable[[list[int]], list[int]] = lambda running: running,
        say: Callable[[Request], list[int]] = lambda request: list(b"ok"),
    ) -> None:
        self.ready, self.say = ready, say
        self.requests: dict[int, Request] = {}
        self.log: list[tuple[str, list[int]]] = []
        self.timeouts: list[float | None] = []
        self.closed = False

    def submit(self, requests: Iterable[Request]) -> None:
        new = list(requests)
        self.requests |= {request.key: request for request in new}
        if new:
            self.log.append(("submit", [request.key for request in new]))

    def poll(self, timeout: float | None = None) -> list[Completion]:
        self.timeouts.append(timeout)
        done = self.ready(list(self.requests))
        self.log.append(("poll", done))
        return [self._finish(self.requests.pop(key)) for key in done]

    def _finish(self, request: Request) -> Completion:
        ids = self.say(request)
        return Completion(ids, [-1.0] * len(ids), FinishReason.STOP, self.version, request.key)

    @property
    def running(self) -> int:
        return len(self.requests)

    def score(self, sequences, temperature=1.0):
        return [[-1.0] * (len(ids) - 1) for ids in sequences]

    def update_weights(self, named_tensors, version):
        self.version = version

    def cancel(self) -> list[Completion]:
        self.log.append(("cancel", list(self.requests)))
        self.requests.clear()
        return []

    def close(self) -> None:
        self.closed = True

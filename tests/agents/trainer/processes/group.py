"""Real process groups for tests: gloo on the CPU, kept between tests, given functions to run.

``group(3).run(function, *arguments)`` calls a module-level function in each of three processes, as
``function(rank, *arguments)``, and returns what each returned.
"""

import contextlib
import os
import queue
import sys
import tempfile
import traceback
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from llm_gym_agents.trainer import build
from tests.agents.small_run import one_layer


class Failed(Exception):
    """What a process raised, as text."""


def _serve(rank, world, place, inbox, outbox):
    warnings.simplefilter("ignore")  # those of pytest would be errors
    torch.set_num_threads(1)
    build.tiny_llama = one_layer  # a process that is not forked knows nothing of conftest.py
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "here"}
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=world)
    while (job := inbox.get()) is not None:
        function, arguments = job
        try:
            outbox.put((rank, True, function(rank, *arguments)))
        except BaseException:  # noqa: BLE001 - the test gets it, of whatever kind
            outbox.put((rank, False, traceback.format_exc()))
    dist.destroy_process_group()


class Group:
    """Processes that wait for work."""

    def __init__(self, world):
        # A fork imports nothing anew. Autograd forbids it after a use of CUDA, and in a fork of a
        # process with Ray its calls never end.
        forks = sys.platform == "linux" and not torch.cuda.is_available()
        context = mp.get_context("fork" if forks and "ray" not in sys.modules else "spawn")
        self._folder = tempfile.TemporaryDirectory()
        self.world, self._outbox = world, context.Queue()
        self._inboxes = [context.Queue() for _ in range(world)]
        self._processes = [
            context.Process(
                target=_serve,
                args=(rank, world, f"{self._folder.name}/store", inbox, self._outbox),
                daemon=True,
            )
            for rank, inbox in enumerate(self._inboxes)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: pytest's own only read a pipe
            for process in self._processes:
                process.start()

    def run(self, function, *arguments):
        """Return what ``function`` returned in each process."""
        for inbox in self._inboxes:
            inbox.put((function, arguments))
        found = {}
        for _ in self._inboxes:
            rank, worked, value = self._answer()
            if not worked:
                raise Failed(f"process {rank}: {value}")
            found[rank] = value
        return [found[rank] for rank in range(self.world)]

    def _answer(self):
        """Return the next answer, and wait as long as all processes live."""
        for _ in range(200):
            with contextlib.suppress(queue.Empty):
                return self._outbox.get(timeout=3)
            if not all(process.is_alive() for process in self._processes):
                break
        raise Failed(f"no answer; exit codes {[each.exitcode for each in self._processes]}")

    def close(self):
        for inbox in self._inboxes:
            inbox.put(None)
        for process in self._processes:
            process.join(10)
            process.kill()
        self._folder.cleanup()

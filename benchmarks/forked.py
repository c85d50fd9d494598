"""Jobs as forks of a process that has imported everything.

Importing torch, TorchRL and transformers took half a minute of a run that trains for as long. A
fork server imports a module once; each job is then a fork of it, with one thread and memory of its
own: ``work(jobs, results, by=Forks("curves.run"))``.

A job's command is what the module's ``result`` is called with, and that returns its row.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

from lanes import ONE_THREAD, Job, Row


class Forks:
    """Runs jobs by forking a process that has imported ``module``.

    Args:
        module: Has a function ``result(arguments)``. It must not start threads when imported.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([module])
        # The server looks for what it imports there, and not in our ``sys.path``.
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with mock.patch.dict(os.environ, ONE_THREAD | path):
            forkserver.ensure_running()

    def __call__(self, job: Job, timeout: float) -> Row:
        """Run one job; return what its function does, or what went wrong."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_call, args=(self._module, list(job.command), theirs), daemon=True
        )
        process.start()
        theirs.close()
        try:
            if not ours.poll(timeout):
                return {"error": f"stopped after {timeout:.0f} s"}
            row: Row = ours.recv()
            return row
        except EOFError:
            process.join()
            return {"error": f"exit code {process.exitcode}"}
        finally:
            process.kill()
            process.join()
            ours.close()


def _call(module: str, arguments: list[str], answer: Connection[Any, Any]) -> None:
    try:
        answer.send(importlib.import_module(module).result(arguments))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the row of this job)
        answer.send({"error": f"{type(error).__name__}: {error}"[-600:]})

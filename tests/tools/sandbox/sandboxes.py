"""Sandboxes for tests: what this machine allows, and why it does not."""

from functools import cache

import pytest

from llm_gym.tools.sandbox import Sandbox, SandboxError
from llm_gym.tools.sandbox.sandbox import ISOLATED as ISOLATED


@cache
def refusal(isolation):
    """Return why this machine does not have an isolation, "" if it does."""
    try:
        with Sandbox(isolation=isolation) as sandbox:
            return "" if sandbox.mechanism else "no mechanism"
    except SandboxError as error:
        return str(error)


def forbid_isolation(monkeypatch):
    """Let every sandbox refuse to start, as on a machine without isolation."""

    def refuse(self):
        raise SandboxError("the code cannot be isolated on this machine")

    monkeypatch.setattr(Sandbox, "_started", refuse)


def need(isolation):
    """Skip the test where the isolation is not to be had."""
    if why := refusal(isolation):
        pytest.skip(why)

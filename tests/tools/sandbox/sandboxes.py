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


def need(isolation):
    """Skip the test where the isolation is not to be had."""
    if why := refusal(isolation):
        pytest.skip(why)

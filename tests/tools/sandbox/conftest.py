"""A sandbox of every kind that this machine allows."""

import pytest

from llm_gym.tools.sandbox import Sandbox
from tests.tools.sandbox.sandboxes import ISOLATED, need


@pytest.fixture(scope="module", params=[*ISOLATED, "none"])
def sandbox(request):
    need(request.param)
    with Sandbox(isolation=request.param, timeout=20) as made:  # the machine may be busy
        yield made


@pytest.fixture
def walled():
    need("namespaces")
    with Sandbox(isolation="namespaces", timeout=20) as made:
        yield made

import pytest

from tests.server.servers import Caller


@pytest.fixture(autouse=True)
def _callers_hang_up():
    yield
    for http in Caller.all:
        http.close()

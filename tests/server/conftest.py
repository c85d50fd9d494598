import pytest

from tests.server.servers import Caller


@pytest.fixture(autouse=True)
def _callers_hang_up():
    pytest.importorskip("httpx")
    yield
    for http in Caller.all:
        http._transport.close()  # the next request of a caller connects anew

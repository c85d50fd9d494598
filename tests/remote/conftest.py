import pytest

from tests.serve.servers import Caller


@pytest.fixture(autouse=True)
def _callers_hang_up():
    yield
    for http in Caller.all:
        http.hang_up()

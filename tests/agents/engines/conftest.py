"""A stand-in for SGLang's server, and engines that are connected to it."""

import pytest

from llm_gym_agents.engines.sglang.engine import SGLangEngine
from tests.agents.engines.sglang.stand_in import FixedSampler, StandIn, TinySampler
from tests.agents.tiny import save_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The folder of a tiny model and its tokenizer."""
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def serve():
    """Return a function that starts a stand-in; it is stopped in the end."""
    made = []

    def start(sampler):
        made.append(StandIn(sampler))
        return made[-1]

    yield start
    for server in made:
        if not server.dead:
            server.close()


@pytest.fixture
def server(serve, tiny_folder):
    """A stand-in that computes with a tiny model."""
    return serve(TinySampler(tiny_folder))


@pytest.fixture
def fixed(serve):
    """A stand-in that always gives the same reply."""
    return serve(FixedSampler())


@pytest.fixture
def connect(tiny_folder):
    """Return a function that makes an engine for a stand-in; it is closed in the end."""
    made = []

    def make(server, **settings):
        made.append(SGLangEngine(tiny_folder, url=server.url, **settings))
        return made[-1]

    yield make
    for engine in made:
        engine.close()

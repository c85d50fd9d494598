"""One finished smoke run on ``Echo``, for every test that looks at one."""

import shutil

import pytest

from llm_gym import cli
from llm_gym_agents.config import ConfigStore
from tests.agents.conftest import leave_unpainted

SMALL = ("--training.learning-rate", "0.01", "--inference.max-tokens", "3")


@pytest.fixture(autouse=True)
def _no_curves(unpainted):
    """Of no run here."""


@pytest.fixture(scope="session")
def echo_run(tmp_path_factory):
    """The folder of a finished smoke run; copy it before you change it."""
    place = tmp_path_factory.mktemp("echo") / "run"
    where = ("--checkpoint.output-dir", str(place))
    with pytest.MonkeyPatch.context() as patch:
        leave_unpainted(patch)
        assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *SMALL, *where]) == 0
    return place


@pytest.fixture
def run(echo_run, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(echo_run, tmp_path / "run")


def changed(run, **sections):
    """Change settings of a run."""
    config = ConfigStore.load(run / "config.json")
    config.update(sections)
    config.save(run / "config.json")

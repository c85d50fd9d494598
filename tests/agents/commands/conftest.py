"""One finished smoke run on ``Echo``, for every test that looks at one."""

import pytest

from llm_gym import cli

SMALL = ("--training.learning-rate", "0.01", "--inference.max-tokens", "3")


@pytest.fixture(autouse=True)
def unpainted(monkeypatch):
    """To paint the curve takes as long as a smoke run; ``run/test_metrics.py`` does it."""
    _leave_unpainted(monkeypatch)


def _leave_unpainted(monkeypatch):
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, file, **_: file.write(b"a picture")
    )


@pytest.fixture(scope="session")
def echo_run(tmp_path_factory):
    """The folder of a finished smoke run; copy it before you change it."""
    place = tmp_path_factory.mktemp("echo") / "run"
    where = ("--checkpoint.output-dir", str(place))
    with pytest.MonkeyPatch.context() as patch:
        _leave_unpainted(patch)
        assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *SMALL, *where]) == 0
    return place

"""Tests with the mark ``gpu`` are skipped where there is none; bounded work needs no fork."""

import contextlib

import pytest
import torch

from llm_gym_agents import PPOTrainer
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.learn import learner
from llm_gym_agents.model.self_check import check_packed_reading
from llm_gym_agents.trainer import build
from tests.agents.small_run import one_layer


def pytest_runtest_setup(item):
    """Skip before any fixture is made."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session", autouse=True)
def small_model_of_known_words():
    """Give the embedded model one layer, and play an environment for its words only once."""
    known, collect = {}, build.tokenizers.collect_vocabulary

    def look_up(*args, **settings):
        key = repr((args, settings))
        if key not in known:
            known[key] = collect(*args, **settings)
        return list(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build.tokenizers, "collect_vocabulary", look_up)
        patch.setattr(build, "tiny_llama", one_layer)
        yield


@pytest.fixture(autouse=True)
def run_bounded_here(monkeypatch):
    """Run templates of our own here: a fork of this large process takes a tenth of a second.

    ``test_strangers_models.py`` has the child with its limits.
    """

    def call(work, **limits):
        try:
            return work()
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    monkeypatch.setattr("llm_gym.tools.sandbox.bounded.run_bounded", call)


@pytest.fixture(autouse=True)
def check_models_once(request, monkeypatch):
    """Let a model that passed its checks pass them again, but where the checks are tested."""
    if request.path.stem in ("test_models", "test_self_check"):
        return

    def once(check, model_of):
        def look_up(subject, *args):
            model = model_of(subject)
            weights = float(sum(weight.detach().double().sum() for weight in model.parameters()))
            key = (check.__name__, type(subject), model.config.to_json_string(), weights, *args)
            if key not in CHECKED:
                check(subject, *args)
                CHECKED.add(key)

        return look_up

    decodes = once(TransformersEngine._check_decoding, lambda engine: engine.model)
    monkeypatch.setattr(TransformersEngine, "_check_decoding", decodes)
    monkeypatch.setattr(learner, "check_packed_reading", once(check_packed_reading, lambda lm: lm))


CHECKED = set()


@pytest.fixture
def cleaned():
    """Return a function that hands a trainer back, and cleans it up in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda trainer: stack.callback(trainer.cleanup) and trainer


@pytest.fixture
def train(cleaned):
    """Return a function that makes a trainer; it is cleaned up in the end."""
    return lambda *args, **kwargs: cleaned(PPOTrainer(*args, **kwargs))


def leave_unpainted(monkeypatch):
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, file, **_: file.write(b"a picture")
    )


@pytest.fixture
def unpainted(monkeypatch):
    """To paint the curve takes as long as a smoke run; ``run/test_metrics.py`` does it."""
    leave_unpainted(monkeypatch)

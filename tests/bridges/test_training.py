"""Two iterations of the trainer on environments of other suites: ``make test-bridges``."""

import math
import sys
from pathlib import Path

import pytest

from llm_gym.registry.bridges import BRIDGES, installed

pytest.importorskip("torchrl")
pytestmark = pytest.mark.filterwarnings("ignore")
from llm_gym_agents import PPOTrainer  # noqa: E402
from tests.agents.small_run import small  # noqa: E402

TRAINED = {
    "llm_gym/TextArena-v0": {"env_id": "GuessTheNumber-v0"},
    "llm_gym/ReasoningGym-v0": {"dataset": "chain_sum"},
    "llm_gym/Verifiers-v0": {"env_id": "tiny-sums"},
}
HERE = {row.id for row in BRIDGES if installed(row)}


@pytest.mark.parametrize("env_id", TRAINED)
def test_the_trainer_trains_two_iterations(env_id, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "verifiers_envs"))
    if env_id not in HERE:
        pytest.skip(f"the suite of {env_id} is not installed")
    config = small(tmp_path, environment={"env_id": env_id})
    config.environment.env_kwargs = TRAINED[env_id]
    # A model that knows nothing wins nothing: paid by the length of its replies, it learns.
    trainer = PPOTrainer(config, reward_fn=lambda episode: len(episode.actions[0]) / 100)
    before = {name: weight.clone() for name, weight in trainer.learner.model.named_parameters()}
    trainer.fit(num_epochs=1, num_iters_per_epoch=2)
    moved = [n for n, w in trainer.learner.model.named_parameters() if not w.equal(before[n])]
    trainer.cleanup()
    assert len(trainer.metrics_history) == 2
    assert moved
    for metrics in trainer.metrics_history:
        names = ("loss/policy", "loss/value", "train/grad_norm", "reward/mean")
        said = ", ".join(f"{name} {metrics[name]:.3g}" for name in names)
        sys.stdout.write(f"{env_id}: {said}\n")
        assert metrics["train/grad_norm"] > 0.0
        assert math.isfinite(metrics["loss/policy"])
        assert metrics["reward/mean"] > 0.0

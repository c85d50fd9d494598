"""Two iterations of the trainer on environments of other suites: ``make test-bridges``."""

import math

import pytest

from llm_gym.episodes import read_episodes
from llm_gym.registry.bridges import BRIDGES, installed

pytest.importorskip("torchrl")
pytestmark = pytest.mark.filterwarnings("ignore")
from llm_gym_agents import PPOTrainer  # noqa: E402
from tests.agents.small_run import small  # noqa: E402

TRAINED = {
    "llm_gym/TextArena-v0": {"env_id": "GuessTheNumber-v0", "max_turns": 3},
    "llm_gym/ReasoningGym-v0": {"dataset": "chain_sum"},
}
HERE = {row.id for row in BRIDGES if installed(row)}


@pytest.mark.parametrize("env_id", TRAINED)
def test_the_trainer_trains_two_iterations(env_id, tmp_path):
    if env_id not in HERE:
        pytest.skip(f"the suite of {env_id} is not installed")
    config = small(tmp_path, environment={"env_id": env_id})
    config.environment.env_kwargs = TRAINED[env_id]
    trainer = PPOTrainer(config)
    history = trainer.fit(num_epochs=1, num_iters_per_epoch=2)
    trainer.cleanup()
    assert len(history) == 2
    for metrics in history:
        assert math.isfinite(metrics["loss/policy"])
        assert math.isfinite(metrics["loss/value"])
    assert trainer.metrics_history
    del read_episodes

"""The recipes of a real model: whole, legal, and tried out with a tiny one in its place."""

import pytest

from llm_gym_agents import PPOTrainer
from llm_gym_agents.commands.plan import shrink
from llm_gym_agents.recipes import NAMES, find_recipe
from llm_gym_agents.recipes.smollm2 import GAMES, PREFIX
from tests.agents.tiny import save_tiny


def test_every_game_is_a_recipe_by_name():
    assert {name for name in NAMES if name.startswith(PREFIX)} == {PREFIX + game for game in GAMES}
    for name in NAMES:
        recipe = find_recipe(name)
        assert recipe.name == name
        recipe.config.check()
    assert find_recipe("smollm2-") is None
    assert find_recipe("frozen-lake") is None


QUICK = ("sokoban-easy",)


@pytest.mark.parametrize(
    "game", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in GAMES]
)
def test_a_recipe_warms_up_and_learns_once_with_a_tiny_model(game, tmp_path):
    config = find_recipe(PREFIX + game).config
    shrink(config)
    config.warm_start.turns = 20
    config.model.model_name = save_tiny(tmp_path / "model", max_position_embeddings=2048)
    config.inference.backend, config.inference.engine = "transformers", {}
    config.checkpoint.output_dir = str(tmp_path / "run")
    trainer = PPOTrainer(config)
    try:
        (row,) = trainer.fit()
    finally:
        trainer.cleanup()
    assert row["warm_start/steps"] == 2
    assert row["train/steps"] == 1

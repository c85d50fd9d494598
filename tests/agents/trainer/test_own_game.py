"""A game of five methods, the least that an author writes, is trained on from nothing."""

import gymnasium as gym
import pytest

from llm_gym import TextEnv, go_on, reject, win
from llm_gym_agents import PPOTrainer
from llm_gym_agents.distributed.build import tiny_tokenizer
from tests.agents.small_run import small

COIN = "tests/Coin-v0"


class Coin(TextEnv):
    """No players, no name of an instance, no splits: as in the README."""

    max_turns = 5

    def new_game(self, rng):
        self.coin = ["heads", "tails"][int(rng.integers(2))]

    def rules_text(self):
        return "Call the coin: heads or tails."

    def example_moves(self):
        return ["heads", "tails"]

    def describe(self):
        return f"Turns left: {self.turns_left}."

    def apply(self, move):
        if move.lower() not in ("heads", "tails"):
            return reject("Say heads or tails.")
        return win("Right!") if move.lower() == self.coin else go_on("Wrong.")


@pytest.fixture
def coin():
    gym.register(COIN, entry_point=Coin)
    yield COIN
    del gym.registry[COIN]


def test_its_tokenizer_knows_the_example_moves_and_the_answers(coin):
    tokenizer = tiny_tokenizer(coin, {})
    for word in ("heads", "tails", "Right", "Wrong"):
        assert tokenizer.convert_tokens_to_ids(word) != tokenizer.unk_token_id, word


def test_it_is_taught_its_example_moves_trained_and_evaluated(coin, tmp_path):
    config = small(
        tmp_path,
        environment={"env_id": coin, "eval_interval": 1, "eval_episodes": 20, "eval_split": "test"},
        warm_start={"player": "auto", "turns": 400, "steps": 60, "rate": 3e-3},
    )
    trainer = PPOTrainer(config)
    [row] = trainer.fit()
    trainer.cleanup()
    assert row["warm_start/turns"] == 400
    assert row["eval/success"] > 0.5, "of two moves, taken in turn, one is right"

"""``PPOTrainer``: the quick starts that people know, what it plays, and a game of one's own."""

from pathlib import Path

import gymnasium as gym
import pytest

import llm_gym_agents
from llm_gym import TextEnv, go_on, lose, reject, win
from llm_gym_agents import ConfigStore, PPOTrainer, RayPPOTrainer, create_trainer
from llm_gym_agents.trainer.build import tiny_tokenizer
from tests.agents.small_run import Odd, small, trained, untimed
from tests.core.legacy.old_games import TextGame

# --- the names and the quick starts ----------------------------------------------------------


@pytest.mark.parametrize("name", llm_gym_agents.__all__)
def test_every_public_name_is_there(name):
    found = getattr(llm_gym_agents, name)
    assert getattr(found, "__name__", name).rpartition(".")[2] == name
    assert name in dir(llm_gym_agents)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="PPOTrainr"):
        llm_gym_agents.PPOTrainr  # noqa: B018


def test_the_text_game_of_the_readme(tmp_path):
    config = small(tmp_path)
    env = TextGame(config.environment)
    trainer = RayPPOTrainer(config, env, reward_fn=lambda t: sum(t.rewards))
    trainer.fit(num_epochs=2, num_iters_per_epoch=2)

    trainer.save_checkpoint(Path(tmp_path / "epoch_5"))
    trainer.load_checkpoint(Path(tmp_path / "epoch_5"))
    rows = [
        (row["epoch"], row["policy_loss"], row["value_loss"]) for row in trainer.metrics_history
    ]
    assert [epoch for epoch, *_ in rows] == [0, 0, 1, 1]
    assert all(isinstance(number, float) for _, *losses in rows for number in losses)
    trainer.fit(num_epochs=3, num_iters_per_epoch=2)
    assert [row["epoch"] for row in trainer.metrics_history] == [0, 0, 1, 1, 2, 2]
    trainer.cleanup()
    trainer.cleanup()


@pytest.mark.parametrize("make", [RayPPOTrainer, create_trainer])
def test_the_quick_start_passes_the_environment_to_the_reward_function(tmp_path, make):
    config = small(tmp_path)
    env = TextGame(config.environment)
    environments = []

    def compute_reward(trajectory, environment):
        environments.append(environment)
        return sum(trajectory.rewards)

    trainer = make(config=config, environment=env, reward_fn=compute_reward, dataset=None)
    trainer.fit(num_epochs=1)
    trainer.cleanup()
    assert environments
    assert all(environment is env for environment in environments)


# --- what it plays ---------------------------------------------------------------------------


def test_a_dataset_and_a_held_out_one_are_not_mixed_up(train, tmp_path):
    rows = [{"q": f"train {at}", "a": "x"} for at in range(8)]
    held_out = [{"q": f"held out {at}", "a": "x"} for at in range(4)]
    seen = {"train": set(), "held out": set()}

    def reward(trajectory):
        seen["train"].add(trajectory.states[0])
        return 0.0

    trainer = train(
        small(tmp_path, environment={"eval_interval": 1}),
        dataset=rows,
        val_dataset=held_out,
        collate_fn=lambda row: {"prompt": row["q"], "answer": row["a"]},
        reward_fn=reward,
    )
    trainer.fit()
    seen["held out"] = {episode.states[0] for episode in trainer.evaluate(3).episodes}
    assert seen["train"]
    assert all("train" in text for text in seen["train"])
    assert all("held out" in text for text in seen["held out"])


def test_a_seed_of_any_size_is_a_seed(tmp_path):
    rows = []
    for seed in (2**70, 2**70 + 1):
        config = small(tmp_path / str(seed), training={"seed": seed})
        rows += trained(config, Odd).metrics_history
    assert rows[0]["policy/entropy"] != rows[1]["policy/entropy"]


def test_a_run_saves_its_config_and_calls_the_callbacks(train, tmp_path):
    iterations = []
    trainer = train(
        small(tmp_path),
        "llm_gym/Echo-v0",
        callbacks=[lambda trainer, row: iterations.append(trainer.iteration)],
    )
    trainer.fit(num_epochs=2, num_iters_per_epoch=1)
    assert iterations == [1, 2]
    saved = ConfigStore.load(tmp_path / "config.json")
    assert (saved.training.num_epochs, saved.environment.env_id) == (2, "llm_gym/Echo-v0")


def test_an_evaluation_changes_nothing_that_comes_after(tmp_path):
    """The engine's memory of what it read would change the last bits of a log-prob."""
    rows = {}
    for name, looks in (("looked", 1), ("not", 0)):
        trainer = PPOTrainer(small(tmp_path / name), "llm_gym/Echo-v0")
        for _ in range(looks):
            trainer.evaluate(4)
        rows[name] = untimed(trainer.fit())
        trainer.cleanup()
    assert rows["looked"] == rows["not"]


COIN = "tests/Coin-v0"


class Coin(TextEnv):
    """No players, no name of an instance, no splits: as in the README."""

    max_turns = 10

    def new_game(self, rng):
        self.side, self.right = ["heads", "tails"][int(rng.integers(2))], 0

    def rules_text(self):
        return "Call three throws of the coin."

    def example_moves(self):
        return ["heads", "tails"]

    def describe(self):
        return f"The coin shows {self.side}."

    def apply(self, move):
        if move.lower() not in ("heads", "tails"):
            return reject("Say heads or tails.")
        if move.lower() == self.side:
            return lose("Wrong.")
        self.side, self.right = move.lower(), self.right + 1
        return win("Right!") if self.right == 3 else go_on("Right.")


@pytest.fixture
def coin():
    gym.register(COIN, entry_point=Coin)
    yield COIN
    del gym.registry[COIN]


def test_the_tokenizer_of_a_game_knows_its_example_moves_and_answers(coin):
    tokenizer = tiny_tokenizer({coin: {}})
    for word in ("heads", "tails", "Right", "Wrong"):
        assert tokenizer.convert_tokens_to_ids(word) != tokenizer.unk_token_id, word


@pytest.mark.slow
def test_a_custom_game_is_imitated_trained_and_evaluated(train, coin, tmp_path):
    config = small(
        tmp_path,
        environment={"env_id": coin, "eval_interval": 1, "eval_episodes": 20, "eval_split": "test"},
        warm_start={"player": "auto", "turns": 400, "steps": 60, "rate": 3e-3},
    )
    trainer = train(config)
    [row] = trainer.fit()
    assert row["warm_start/turns"] == 400
    assert row["warm_start/invalid"] < 0.1, "it writes moves"

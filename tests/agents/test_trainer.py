"""``PPOTrainer``: the quick starts that people know, what it plays, and faults in one sentence."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from safetensors.torch import load_file

import llm_gym_agents
from llm_gym import BaseEnvironment
from llm_gym.errors import LLMGymError
from llm_gym.spaces import AnyText
from llm_gym_agents import (
    ConfigStore,
    PPOTrainer,
    RayPPOTrainer,
    RewardManager,
    create_trainer,
)
from llm_gym_agents.metrics import read_metrics
from llm_gym_agents.ppo import NotFiniteError
from tests.agents.tiny import save_tiny, tiny_model, tiny_tokenizer

SMALL = {
    "inference": {"num_envs": 4, "max_tokens": 3, "max_turns": 2},
    "training": {
        "num_epochs": 1,
        "num_iters_per_epoch": 1,
        "batch_size": 4,
        "mini_batch_size": 4,
        "ppo_epochs": 1,
    },
    "environment": {"eval_interval": 0, "eval_episodes": 2, "max_steps": 2},
}


def small(folder, **sections):
    config = ConfigStore.from_dict(SMALL)
    config.checkpoint.output_dir = str(folder)
    config.update(sections)
    return config


class TextGameEnv(BaseEnvironment):
    """The seed's example, word by word."""

    def reset(self) -> str:
        self.score = 0
        self.inventory = []
        return "Welcome to the game! You are in a room."

    def step(self, action: str) -> tuple:
        reward = 0.0

        if "take" in action.lower():
            self.inventory.append("item")
            reward = 1.0
        elif "attack" in action.lower():
            reward = 5.0
            self._done = True
        else:
            reward = -0.1

        self.score += reward
        return self.get_state_description(), reward, self._done, {}

    def get_state_description(self) -> str:
        return f"Score: {self.score}, Inventory: {self.inventory}"


class Odd(gym.Env):
    """One turn; breaks as its subclasses say."""

    observation_space = action_space = AnyText(100)
    reward = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "?", {}

    def step(self, action):
        return "!", self.reward, True, False, {}


class NeverBegins(Odd):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no such level")


class BreaksOnce(Odd):
    def step(self, action):
        if self.np_random.random() < 0.5:
            raise RuntimeError("the database is gone")
        return super().step(action)


# --- the names and the quick starts ----------------------------------------------------------


def test_importing_the_package_imports_no_torch():
    code = "import sys, llm_gym_agents; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", llm_gym_agents.__all__)
def test_every_public_name_is_there(name):
    found = getattr(llm_gym_agents, name)
    assert getattr(found, "__name__", name).rpartition(".")[2] == name
    assert name in dir(llm_gym_agents)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'PPOTrainr'"):
        llm_gym_agents.PPOTrainr  # noqa: B018


def test_the_text_game_of_the_readme(tmp_path):
    config = small(tmp_path)
    env = TextGameEnv(config.environment)
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


@pytest.mark.parametrize("make", [RayPPOTrainer, PPOTrainer, create_trainer])
def test_the_quick_start_with_a_reward_that_asks_the_environment(tmp_path, make):
    config = small(tmp_path)
    env = TextGameEnv(config.environment)
    asked = []

    def compute_reward(trajectory, environment):
        asked.append(environment)
        return sum(trajectory.rewards)

    trainer = make(config=config, environment=env, reward_fn=compute_reward, dataset=None)
    trainer.fit(num_epochs=1)
    trainer.cleanup()
    assert asked
    assert all(environment is env for environment in asked)


# --- what it plays ---------------------------------------------------------------------------


def test_a_dataset_and_a_held_out_one_are_not_mixed_up(tmp_path):
    rows = [{"q": f"train {at}", "a": "x"} for at in range(8)]
    held_out = [{"q": f"held out {at}", "a": "x"} for at in range(4)]
    seen = {"train": set(), "held out": set()}

    def reward(trajectory):
        seen["train"].add(trajectory.states[0])
        return 0.0

    trainer = PPOTrainer(
        small(tmp_path, environment={"eval_interval": 1}),
        dataset=rows,
        val_dataset=held_out,
        collate_fn=lambda row: {"prompt": row["q"], "answer": row["a"]},
        reward_fn=reward,
    )
    trainer.fit()
    seen["held out"] = {episode.states[0] for episode in trainer.evaluate(3).episodes}
    trainer.cleanup()
    assert seen["train"]
    assert all("train" in text for text in seen["train"])
    assert all("held out" in text for text in seen["held out"])


@pytest.mark.parametrize(("mode", "expected"), [("replace", 10.0), ("add", 11.0)])
def test_a_reward_function_replaces_or_adds(tmp_path, mode, expected):
    config = small(tmp_path, training={"reward_mode": mode})
    trainer = PPOTrainer(config, Odd, reward_fn=lambda t: 10.0)
    [row] = trainer.fit()
    trainer.cleanup()
    assert row["reward/mean"] == expected
    assert row["reward/env"] == 1.0


def test_a_reward_manager_is_a_reward_function(tmp_path):
    manager = RewardManager(invalid_penalty=0.5)
    trainer = PPOTrainer(small(tmp_path), TextGameEnv({"max_steps": 2}), reward_fn=manager)
    [row] = trainer.fit()
    trainer.cleanup()
    assert "reward/sum" in row or "reward/env" in row


def test_remax_compares_with_a_greedy_episode_of_the_same_start(tmp_path):
    config = small(tmp_path, training={"adv_estimator": "remax"})
    trainer = PPOTrainer(config, "llm_gym/Echo-v0")
    given, update = [], trainer.ppo.update
    trainer.ppo.update = lambda data, **kw: (
        given.append(kw["greedy_scores_E"]) or update(data, **kw)
    )
    trainer.fit()
    trainer.cleanup()
    assert given[0].shape == (4,)


def test_a_curriculum_moves_the_difficulty(tmp_path):
    config = small(
        tmp_path,
        environment={"curriculum": True, "curriculum_step": 0.25, "curriculum_target": 0.5},
        training={"num_iters_per_epoch": 3},
    )
    trainer = PPOTrainer(config, "llm_gym/Echo-v0", reward_fn=None)
    won = iter([1.0, 1.0, 0.0])
    move = type(trainer.curriculum).update
    type(trainer.curriculum).update = lambda self, success: move(self, next(won))
    try:
        rows = trainer.fit()
    finally:
        type(trainer.curriculum).update = move
    trainer.cleanup()
    assert [row["env/difficulty"] for row in rows] == [0.0, 0.25, 0.5]
    assert trainer.curriculum.difficulty == 0.25


def test_groups_share_their_seed_and_episodes_never_repeat(tmp_path):
    config = small(tmp_path, training={"adv_estimator": "grpo", "group_size": 2})
    trainer = PPOTrainer(config, Odd)
    first = trainer._tasks()
    trainer.iteration = 1
    second = trainer._tasks()
    trainer.cleanup()
    assert trainer.model.value_head is None
    assert [task.group for task in first + second] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({task.seed for task in first + second}) == 4
    assert len({task.id for task in first + second}) == 8


def test_a_model_in_a_folder_is_trained_and_saved(tmp_path):
    path = save_tiny(tmp_path / "model")
    config = small(tmp_path / "run", model={"model_name": path}, training={"learning_rate": 0.1})
    trainer = PPOTrainer(config, Odd, reward_fn=lambda t: len(t.actions[0]))
    trainer.fit()
    trainer.cleanup()
    saved = load_file(tmp_path / "run/checkpoints/iteration-000001/model/model.safetensors")
    before = load_file(tmp_path / "model/model.safetensors")
    assert saved.keys() == before.keys()
    assert any(not saved[name].equal(before[name]) for name in saved)


def test_the_folder_says_how_the_run_went(tmp_path):
    trainer = PPOTrainer(small(tmp_path), "llm_gym/Echo-v0")
    trainer.fit(num_epochs=2, num_iters_per_epoch=1)
    trainer.cleanup()
    said = ConfigStore.load(tmp_path / "config.json")
    assert (said.training.num_epochs, said.environment.env_id) == (2, "llm_gym/Echo-v0")


def test_callbacks_are_told_after_every_iteration(tmp_path):
    told = []
    config = small(tmp_path, training={"num_iters_per_epoch": 2})
    trainer = PPOTrainer(config, Odd, callbacks=[lambda t, row: told.append(t.iteration)])
    trainer.fit()
    trainer.cleanup()
    assert told == [1, 2]


def test_an_evaluation_changes_nothing_that_comes_after(tmp_path):
    """The engine's memory of what it read would change the last bits of a log-prob."""
    rows = {}
    for name, looks in (("looked", 1), ("not", 0)):
        trainer = PPOTrainer(small(tmp_path / name), "llm_gym/Echo-v0")
        for _ in range(looks):
            trainer.evaluate(4)
        [row] = trainer.fit()
        trainer.cleanup()
        rows[name] = {key: value for key, value in row.items() if not key.startswith("time/")}
    assert rows["looked"] == rows["not"]


# --- faults ----------------------------------------------------------------------------------


def one_sentence(caught):
    assert isinstance(caught.value, LLMGymError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wrong(tmp_path, **sections):
    return lambda: PPOTrainer(small(tmp_path, **sections), Odd)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: wrong(p, ray={"use_ray": True})(), "ray.use_ray must be False, got True"),
        (lambda p: wrong(p, training={"group_size": 3})(), "multiple of training.group_size"),
        (lambda p: wrong(p, training={"adv_estimator": "grpo"})(), "at least 2"),
        (lambda p: wrong(p, model={"local_path": "./nowhere"})(), "no model folder './nowhere'"),
        (lambda p: wrong(p, model={"model_name": "no/such-model"})(), "no model could be loaded"),
        (lambda p: PPOTrainer(small(p)), "set config.environment.env_id, got neither"),
        (lambda p: PPOTrainer(small(p), Odd, dataset=[]), "got both"),
        (lambda p: PPOTrainer(small(p), Odd, model=tiny_model()), "needs its tokenizer"),
        (lambda p: PPOTrainer(small(p), "llm_gym/Ecko-v0"), "no environment 'llm_gym/Ecko-v0'"),
        (lambda p: PPOTrainer(small(p), Odd).fit(num_epochs=0), "training.num_epochs must be"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path, make, says, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(LLMGymError) as caught:
        make(tmp_path)
    assert says in one_sentence(caught)
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_that_does_not_fit_the_model(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"<{at}>" for at in range(10)])
    with pytest.raises(LLMGymError) as caught:
        PPOTrainer(small(tmp_path), Odd, model=tiny_model(), tokenizer=tokenizer)
    assert "at most the 264 tokens of the model's embedding, got 271" in one_sentence(caught)


def test_an_environment_that_never_begins(tmp_path):
    trainer = PPOTrainer(small(tmp_path), NeverBegins)
    with pytest.raises(LLMGymError) as caught:
        trainer.fit()
    trainer.cleanup()
    assert "no episode of iteration 0 could be played" in one_sentence(caught)
    assert "no such level" in str(caught.value)


def test_an_environment_that_breaks_now_and_then_costs_its_episodes_only(tmp_path):
    config = small(tmp_path, training={"batch_size": 8, "mini_batch_size": 8})
    trainer = PPOTrainer(config, BreaksOnce)
    [row] = trainer.fit()
    trainer.cleanup()
    assert 0 < row["episode/failed"] < 1


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e38])
def test_a_reward_that_is_no_number_stops_the_run(tmp_path, reward):
    trainer = PPOTrainer(small(tmp_path), type("Bad", (Odd,), {"reward": reward}))
    before = {name: tensor.clone() for name, tensor in trainer.lm.state_dict().items()}
    with pytest.raises((LLMGymError, ValueError)) as caught:
        trainer.fit()
    trainer.cleanup()
    assert "\n" not in str(caught.value)
    assert all(trainer.lm.state_dict()[name].equal(before[name]) for name in before)


def test_a_loss_that_is_no_number_stops_with_its_batch_saved(tmp_path):
    config = small(tmp_path, training={"num_iters_per_epoch": 2})
    trainer = PPOTrainer(config, Odd)

    def spoil(trainer, row):
        with torch.no_grad():
            trainer.model.value_head.bias.fill_(1e30)

    trainer.callbacks.append(spoil)
    with pytest.raises(NotFiniteError) as caught:
        trainer.fit()
    trainer.cleanup()
    [saved] = tmp_path.glob("not-finite-*.safetensors")
    assert str(saved) in one_sentence(caught)
    assert {"ids", "action", "advantage"} <= load_file(saved).keys()
    assert len(read_metrics(tmp_path)) == 1


def test_weights_that_blew_up_are_one_sentence(tmp_path):
    config = small(tmp_path, training={"learning_rate": 1e30, "num_iters_per_epoch": 3})
    trainer = PPOTrainer(config, Odd, reward_fn=lambda t: len(t.actions[0]))
    with pytest.raises(LLMGymError) as caught:
        trainer.fit()
    trainer.cleanup()
    assert "not finite" in one_sentence(caught)


def test_the_folder_of_another_run_is_left_alone(tmp_path):
    trainer = PPOTrainer(small(tmp_path / "theirs"), Odd)
    trainer.fit()
    kept = trainer.save_checkpoint(tmp_path / "elsewhere")
    trainer.cleanup()
    theirs = {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()}
    for load in (False, True):
        other = PPOTrainer(small(tmp_path / "theirs", training={"seed": 5}), Odd)
        if load:
            other.load_checkpoint(kept)
        with pytest.raises(LLMGymError) as caught:
            other.fit(num_epochs=3)
        other.cleanup()
        assert "must be a new folder" in one_sentence(caught)
    assert theirs == {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()}


def test_a_checkpoint_goes_on_in_a_new_folder(tmp_path):
    trainer = PPOTrainer(small(tmp_path / "old"), Odd)
    trainer.fit()
    kept = trainer.save_checkpoint(tmp_path / "kept")
    trainer.cleanup()
    other = PPOTrainer(small(tmp_path / "new"), Odd)
    other.load_checkpoint(kept)
    other.fit(num_epochs=2)
    other.cleanup()
    assert [row["iteration"] for row in read_metrics(tmp_path / "new")] == [2]


def test_what_the_config_says_now_wins_over_the_checkpoint(tmp_path):
    trainer = PPOTrainer(small(tmp_path / "old"), Odd)
    trainer.fit()
    kept = trainer.save_checkpoint(tmp_path / "kept")
    trainer.cleanup()
    changes = {"learning_rate": 0.5, "weight_decay": 0.25, "adam_beta1": 0.5}
    other = PPOTrainer(small(tmp_path / "new", training=changes), Odd)
    other.load_checkpoint(kept)
    other.cleanup()
    group = other.ppo.optimizer.param_groups[0]
    assert (group["base_lr"], group["weight_decay"], group["betas"][0]) == (0.5, 0.25, 0.5)


def test_a_checkpoint_without_a_reference_is_refused_where_one_is_needed(tmp_path):
    trainer = PPOTrainer(small(tmp_path / "old"), Odd)
    kept = trainer.save_checkpoint(tmp_path / "kept")
    trainer.cleanup()
    other = PPOTrainer(small(tmp_path / "new", training={"use_kl_in_loss": True}), Odd)
    with pytest.raises(LLMGymError) as caught:
        other.load_checkpoint(kept)
    other.cleanup()
    assert "needs a checkpoint that has one" in one_sentence(caught)

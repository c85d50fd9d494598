"""What a program hands to ``PPOTrainer`` is looked at before anything is built or played."""

import gymnasium as gym
import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents import PPOTrainer
from llm_gym_agents.rollouts.rewards import RewardError
from tests.agents.small_run import Odd, small
from tests.agents.tiny import tiny_model, tiny_tokenizer


def broken():
    model = tiny_model()
    torch.nn.init.constant_(model.lm_head.weight, torch.nan)
    return model


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"callbacks": print}, "callbacks must be a list of functions, got <built-in"),
        ({"callbacks": [3]}, "callbacks must be a list of functions, got [3]"),
        ({"environment": gym.make_vec("CartPole-v1", num_envs=2)}, "from a single one, got"),
        ({"tokenizer": "gpt2"}, "tokenizer must be a transformers tokenizer, got str"),
        ({"model": "gpt2"}, "model must be a transformers causal language model, got str"),
        ({"model": torch.nn.Linear(2, 2)}, "causal language model, got Linear"),
        ({"model": tiny_model().base_model}, "causal language model, got LlamaModel"),
        ({"model": tiny_model().to("meta")}, "got a LlamaForCausalLM on the device meta"),
        ({"model": tiny_model().requires_grad_(False)}, "that is frozen; model.requires_grad_("),
        ({"model": broken()}, "are not finite; are its weights loaded?"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_not_what_its_name_says_is_refused_in_one_sentence(tmp_path, given, says):
    arguments = {"environment": Odd, "tokenizer": tiny_tokenizer(), **given}
    with pytest.raises(ConfigError) as caught:
        PPOTrainer(small(tmp_path), **arguments)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("config", [None, {"training": {}}])
def test_a_config_that_is_none_is_told_how_to_become_one(config):
    with pytest.raises(ConfigError, match="ConfigStore"):
        PPOTrainer(config, Odd)


def test_a_model_with_adapters_of_its_own_is_told_how_to_have_some(tmp_path):
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules="all-linear"))
    with pytest.raises(ConfigError, match="PeftModel"):
        PPOTrainer(small(tmp_path), Odd, model=model, tokenizer=tiny_tokenizer())


def test_a_frozen_model_is_welcome_where_adapters_are_trained(tmp_path):
    pytest.importorskip("peft")
    model = tiny_model().requires_grad_(False)
    config = small(tmp_path, model={"lora_rank": 2})
    trainer = PPOTrainer(config, Odd, model=model, tokenizer=tiny_tokenizer())
    trained = [name for name, each in trainer.learner.lm.named_parameters() if each.requires_grad]
    trainer.cleanup()
    assert trained
    assert all("lora_" in name for name in trained)


def test_a_trainer_that_was_cleaned_up_says_so(tmp_path):
    trainer = PPOTrainer(small(tmp_path), Odd)
    trainer.cleanup()
    with pytest.raises(ConfigError, match=r"cleanup\(\)"):
        trainer.fit()
    trainer.cleanup()


def test_a_reward_function_that_empties_an_episode_is_told_which(tmp_path):
    def empty(episode):
        episode.actions.clear()
        episode.rewards.clear()
        return 1.0

    trainer = PPOTrainer(small(tmp_path), Odd, reward_fn=empty)
    with pytest.raises(RewardError, match="episode 0"):
        trainer.fit()
    trainer.cleanup()


@pytest.mark.parametrize("kind", [iter, set, tuple])
def test_callbacks_come_in_any_collection(tmp_path, kind):
    trainer = PPOTrainer(small(tmp_path), Odd, callbacks=kind([print]))
    assert trainer.callbacks == [print]
    trainer.cleanup()
